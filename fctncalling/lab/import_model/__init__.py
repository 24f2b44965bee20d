"""Models from pinned wheels and GGUF files, written as ordinary transformers folders."""

from fctncalling.lab.import_model.gguf_file import write_model_folder
from fctncalling.lab.import_model.pinned_models import MODELS, unpacked_model

__all__ = ["MODELS", "unpacked_model", "write_model_folder"]
