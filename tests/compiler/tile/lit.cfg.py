# Tests of the tile dialect and its lowering: each .mlir file's RUN lines, through tilewright-opt and FileCheck.
import lit.formats

config.name = "tile"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = config.source_root
config.test_exec_root = config.binary_root
config.substitutions.append((r"\btilewright-opt\b", config.tilewright_opt))
config.substitutions.append((r"\bFileCheck\b", config.filecheck))
