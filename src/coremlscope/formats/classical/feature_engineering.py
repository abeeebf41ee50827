"""Models that prepare features for others: their messages to `ir`."""

from __future__ import annotations

import numpy as np

from coremlscope import ir
from coremlscope.formats.classical.parts import doubles, keys_of, name_of, read_keys, require
from coremlscope.formats.schema import Message
from coremlscope.ir.classical import (
    ArrayFeatureExtractor,
    CategoricalMapping,
    DictVectorizer,
    FeatureVectorizer,
    Identity,
    Imputer,
    Normalizer,
    OneHotEncoder,
    Scaler,
)

__all__ = [
    "read_array_feature_extractor",
    "read_categorical_mapping",
    "read_dict_vectorizer",
    "read_feature_vectorizer",
    "read_identity",
    "read_imputer",
    "read_normalizer",
    "read_one_hot_encoder",
    "read_scaler",
]

#: A file may say in one number how many elements a feature has; nothing that is meant has more.
_MOST_ELEMENTS = 2**24


def read_array_feature_extractor(message: Message) -> ArrayFeatureExtractor:
    """Reads an `ArrayFeatureExtractor`."""
    kind, places = ArrayFeatureExtractor.kind, message.extractIndex
    require(len(places) > 0, kind, "nothing to extract")
    require(max(places) < _MOST_ELEMENTS, kind, f"the element {max(places)} to extract")
    return ArrayFeatureExtractor(ir.constant(np.array(places, np.int64)))


def read_categorical_mapping(message: Message) -> CategoricalMapping:
    """Reads a `CategoricalMapping`."""
    kind, form = CategoricalMapping.kind, message.WhichOneof("MappingType")
    require(form is not None, kind, "no mapping")
    entries, from_strings = getattr(message, form).map, form == "stringToInt64Map"
    keys = keys_of((entry.key for entry in entries), from_strings, kind)
    mapped: np.ndarray[tuple[int], np.dtype[np.generic]]
    mapped = np.empty(len(entries), np.int64 if from_strings else object)
    mapped[:] = [entry.value for entry in entries]
    default, name = None, message.WhichOneof("ValueOnUnknown")
    if name is not None:
        require((name == "int64Value") == from_strings, kind, "a default of another type than its values")
        default = getattr(message, name)
    dtype = ir.DType.INT64 if from_strings else ir.DType.STRING
    return CategoricalMapping(keys, ir.constant(mapped, dtype), default)


def read_dict_vectorizer(message: Message) -> DictVectorizer:
    """Reads a `DictVectorizer`."""
    return DictVectorizer(read_keys(message, "Map", DictVectorizer.kind))


def read_feature_vectorizer(message: Message) -> FeatureVectorizer:
    """Reads a `FeatureVectorizer`."""
    kind = FeatureVectorizer.kind
    columns = tuple((column.inputColumn, column.inputDimensions) for column in message.inputList)
    require(len(columns) > 0, kind, "no features")
    total = sum(size for _, size in columns)
    require(total < _MOST_ELEMENTS, kind, f"features of {total} elements in all")
    return FeatureVectorizer(columns)


def read_identity(message: Message) -> Identity:
    """Reads an `Identity`."""
    return Identity()


def read_imputer(message: Message) -> Imputer:
    """Reads an `Imputer`."""
    kind, form, keys = Imputer.kind, message.WhichOneof("ImputedValue"), None
    require(form is not None, kind, "no value for what is missing")
    value = getattr(message, form)
    match form:
        case "imputedDoubleArray":
            imputed = doubles(value.vector)
        case "imputedInt64Array":
            imputed = ir.constant(np.array(value.vector, np.int64))
        case "imputedStringDictionary" | "imputedInt64Dictionary":
            keys = keys_of((entry.key for entry in value.map), form == "imputedStringDictionary", kind)
            imputed = doubles(entry.value for entry in value.map)
        case "imputedStringValue":
            imputed = ir.constant(value)
        case "imputedInt64Value":
            imputed = ir.constant(np.int64(value))
        case _:
            imputed = ir.constant(np.float64(value))
    name = message.WhichOneof("ReplaceValue")
    replaced = None if name is None else getattr(message, name)
    if name is not None:
        wanted = {"imputedD": "replaceDoubleValue", "imputedI": "replaceInt64Value"}
        fits = keys is None and wanted.get(form[:8], "replaceStringValue") == name
        require(fits, kind, f"{name}, which does not fit {form}")
    is_nan = isinstance(replaced, float) and np.isnan(replaced)
    return Imputer(imputed, keys, None if is_nan else replaced)


def read_normalizer(message: Message) -> Normalizer:
    """Reads a `Normalizer`."""
    return Normalizer(name_of(message.normType, "Normalizer.NormType", Normalizer.kind))


def read_one_hot_encoder(message: Message) -> OneHotEncoder:
    """Reads a `OneHotEncoder`."""
    kind = OneHotEncoder.kind
    keys = read_keys(message, "CategoryType", kind)
    handling = name_of(message.handleUnknown, "OneHotEncoder.HandleUnknown", kind)
    return OneHotEncoder(keys, message.outputSparse, handling == "IgnoreUnknown")


def read_scaler(message: Message) -> Scaler:
    """Reads a `Scaler`."""
    shift, scale = message.shiftValue or [0.0], message.scaleValue or [1.0]
    lengths = {len(shift), len(scale)} - {1}
    require(len(lengths) < 2, Scaler.kind, f"{len(shift)} shifts and {len(scale)} scales")
    return Scaler(doubles(shift), doubles(scale))
