"""Models from pinned wheels and GGUF files, written as ordinary transformers folders."""

from fctncalling.model_import.gguf_file import is_gguf, write_model_folder
from fctncalling.model_import.model_folder import folder_of_model
from fctncalling.model_import.pinned_models import MODELS, unpacked_model

__all__ = ["MODELS", "folder_of_model", "is_gguf", "unpacked_model", "write_model_folder"]
