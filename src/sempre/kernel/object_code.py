"""Machine code of the loops, in a file: made once by Numba, and used without it.

Numba takes half a second and 120 MiB to import and to load what it keeps; a run of two seconds must not pay that. The
loops need nothing but their arguments, so the object code that LLVM makes of them stands alone. It lies in a cache, by
a name that says what it was made of and for which processor, with a digest in front: what is damaged is made again.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import llvmlite
import llvmlite.binding as llvm

DIGEST_BYTES = 16
# What the code may call: LLVM writes some loops as calls of these.
LIBRARY = {"memcpy", "memmove", "memset"}
KINDS = {"Ints": ctypes.c_void_p, "Small": ctypes.c_void_p, "Bits": ctypes.c_void_p, "int": ctypes.c_int64}

Functions: TypeAlias = "dict[str, Callable[..., int]]"


def kept() -> Functions | None:
    """The loops, if they were made before."""
    path = _path()
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, code = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    return _opened(code) if _digest(code) == digest else None


def made() -> Functions:
    """The loops, compiled now, and kept for the next time where there is a place for them."""
    code = _compiled()
    path = _path()
    if path is not None:
        _keep(path, _digest(code) + code)
    return _opened(code)


def _digest(*parts: bytes) -> bytes:
    made = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        made.update(part)
        made.update(b"\0")
    return made.digest()


def _path() -> Path | None:
    """Where the code lies, or would: with what Python and Numba keep, else with what the user keeps."""
    here = Path(__file__).parent
    try:
        sources = [(here / name).read_bytes() for name in ("loops.py", "object_code.py")]
    except OSError:  # from a zip file, say
        return None
    target = f"{llvmlite.__version__} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features()}"
    name = f"loops-{_digest(*sources, target.encode()).hex()}.o"
    folders = [here / "__pycache__", Path.home() / ".cache" / "sempre"]
    if "NUMBA_CACHE_DIR" in os.environ:
        folders = [Path(os.environ["NUMBA_CACHE_DIR"])]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder / name
    return None


def _keep(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:  # the disk is full, say: it is made again then
        temporary.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------ making it


def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=3, jit=True, codemodel="jitdefault", reloc="default"
    )


def _compiled() -> bytes:
    """The names of all loops with the kinds of their arguments, in one line, and their object code."""
    import numba
    from numba import types

    from sempre.kernel.loops import LOOPS

    pointer: Any = types.CPointer
    numba_types = {
        "Ints": pointer(types.int64),
        "Small": pointer(types.uint32),
        "Bits": pointer(types.uint8),
        "int": types.int64,
    }
    jit: Any = numba.njit
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    whole: Any = llvm.parse_assembly("")
    names: dict[str, list[str]] = {}
    for name, function in LOOPS.items():
        names[name] = [kind for argument, kind in function.__annotations__.items() if argument != "return"]
        signature = types.int64(*(numba_types[kind] for kind in names[name]))
        loop = jit(signature, **options)(function)
        (made,) = loop.overloads.values()
        module = llvm.parse_assembly(loop.inspect_llvm(loop.signatures[0]))
        module.get_function(made.fndesc.llvm_func_name).name = _symbol(name)
        whole.link_in(module)
    wanting = {each.name for each in whole.functions if each.is_declaration and not each.name.startswith("llvm.")}
    if wanting - LIBRARY:
        raise RuntimeError(f"the loops cannot stand alone: they call {', '.join(sorted(wanting))}")
    return json.dumps(names).encode() + b"\n" + bytes(_machine().emit_object(whole))


def _symbol(name: str) -> str:
    return f"sempre_{name}"


# ----------------------------------------------------------------------------------------------- opening it


class _Loop:
    """A loop as a function of Python; while it runs, other threads do."""

    def __init__(self, address: int, kinds: list[str], engine: Any) -> None:
        # As Numba calls functions: what they return and what they raise have places, and the result is a status.
        shape = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *(KINDS[kind] for kind in kinds))
        self._function = shape(address)
        self._engine = engine  # which has the code

    def __call__(self, *arguments: int) -> int:
        result = ctypes.c_int64()
        status = self._function(ctypes.addressof(result), None, *arguments)
        assert status == 0, "loops raise nothing"
        return result.value


def _opened(data: bytes) -> Functions:
    line, code = data.split(b"\n", 1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    names: dict[str, list[str]] = json.loads(line)
    return {name: _Loop(engine.get_function_address(_symbol(name)), kinds, engine) for name, kinds in names.items()}
