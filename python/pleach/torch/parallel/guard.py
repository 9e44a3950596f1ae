"""Guards on tensors that are not final: every use by PyTorch waits for the value first.

Between `step()` and the next forward a parameter, a buffer or an optimizer's state may have an old
value. Its class is then one whose `__torch_function__` waits and gives the tensor its own class
back. This catches references that the user holds, `_foreach` operations, copies and files.
Functions that do not ask the class, such as `torch.tensor(parameter)`, find a dispatch key that
waits. Neither sees memory that is read without an operation: collectives, scripts of `torch.jit`
and compiled functions are wrapped here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import dispatch_key
from .aliases import use_count

# Questions about a tensor that its values have no part in. zero_grad() asks for `grad`.
_ATTRIBUTES = (
    "device dtype grad grad_fn is_cpu is_cuda is_leaf is_meta is_mkldnn is_nested is_quantized "
    "is_sparse itemsize layout name ndim output_nr requires_grad retains_grad shape"
)
_METHODS = (
    "__hash__ __len__ dim element_size get_device is_complex "
    "is_floating_point is_inference is_signed ndimension nelement numel register_hook "
    "register_post_accumulate_grad_hook requires_grad_ retain_grad size"
)
_Tensor: Any = torch.Tensor
_VALUELESS = frozenset(
    [getattr(_Tensor, name).__get__ for name in _ATTRIBUTES.split()]
    + [getattr(_Tensor, name) for name in _METHODS.split()]
    + [_Tensor.grad.__set__, _Tensor.grad.__delete__, _Tensor.requires_grad.__set__]
    + [torch.is_complex, torch.is_floating_point, torch.numel]
)
# Functions that hand tensors to C++ as they are: module, name there.
_WAIT_FOR_ARGUMENTS = (
    ("torch._functorch.eager_transforms", "_wrap_for_grad"),
    ("torch._functorch.vmap", "_add_batch_dim"),
    ("torch._functorch.predispatch", "_make_dual"),
    ("torch._functorch.utils", "unwrap_dead_wrappers"),  # of a user's autograd.Function
    ("torch.distributed.distributed_c10d", "_check_single_tensor"),
    ("torch.distributed.distributed_c10d", "_check_tensor_list"),
    ("torch.utils", "swap_tensors"),
    ("torch._C", "ScriptFunction.__call__"),
    ("torch._C", "ScriptMethod.__call__"),
    ("torch._C", "ScriptModule.save"),
    ("torch._C", "ScriptModule.save_to_buffer"),
    ("torch._C", "ScriptModule._save_for_mobile"),
    ("torch._C", "ScriptModule._save_to_buffer_for_mobile"),
)

# Functions that record or compile what is run in them, or change what optimizers compute meanwhile.
_WAIT_FOR_ALL = (
    ("torch.compiler", "_compile_session_context"),
    ("torch.export", "export"),
    ("torch._dynamo", "export"),
    ("torch.jit", "trace"),
    ("torch.jit", "trace_module"),
)

_GUARDS: weakref.WeakSet[Guard] = weakref.WeakSet()


class Guard:
    """The guarded tensors of one training.

    Attributes:
        waits: False: use of a guarded tensor is an error.
        is_forward: A forward pass waits layer by layer; compiled functions in it wait for nothing.
    """

    def __init__(
        self,
        await_value: Callable[[torch.Tensor], None],
        await_all: Callable[[], None],
        waits: bool = True,
    ):
        """Guards nothing yet.

        Args:
            await_value: Called with a guarded tensor that is about to be used. Returns when its
                value is final and its guard is lifted, or raises.
            await_all: The same for all guarded tensors.
            waits: False: both raise.
        """
        self.waits = waits
        self._lock = threading.Lock()  # parameters and buffers are guarded by different threads
        self._count = 0  # of guarded tensors
        self.is_forward = False
        self.await_value = torch.compiler.disable(await_value)
        self.await_all = torch.compiler.disable(await_all)
        self._classes = {
            kind: _guarded_class(kind, self) for kind in (torch.nn.Parameter, torch.Tensor)
        }
        self._kinds = {guarded: kind for kind, guarded in self._classes.items()}
        _watch()
        _GUARDS.add(self)

    def put(self, tensors: Sequence[torch.Tensor], placeholders: Sequence[torch.Tensor]) -> bool:
        """Guards tensors.

        Args:
            tensors: To guard.
            placeholders: Marked tensors that they have as `data` until their guards are lifted.

        Returns:
            False if some have a class of their own, and cannot be guarded.
        """
        are_all = True
        with self._lock, dispatch_key.below(), torch._C.DisableTorchFunctionSubclass():
            for tensor, data in zip(tensors, placeholders, strict=True):
                guarded = self._classes.get(type(tensor))
                if guarded is not None:
                    tensor.__class__ = guarded
                    tensor.data = data
                    self._count += 1
                elif type(tensor) not in self._kinds:
                    are_all = False
        return are_all

    def lift(self, tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """Gives tensors that are final their memory and their own class back.

        Args:
            tensors: To use again.
            values: What they have as `data` then.
        """
        with self._lock, dispatch_key.below(), torch._C.DisableTorchFunctionSubclass():
            for tensor, data in zip(tensors, values, strict=True):
                kind = self._kinds.get(type(tensor))
                if kind is not None:
                    tensor.data = data  # before another thread finds no guard
                    tensor.__class__ = kind
                    self._count -= 1
                elif dispatch_key.is_marked(tensor):  # the user has given it a class meanwhile
                    tensor.data = data
                    self._count -= 1

    @property
    def is_on(self) -> bool:
        """True if there are guarded tensors."""
        return self._count > 0


class GuardedSet:
    """Tensors that are guarded together, and keep their own memory meanwhile.

    Attributes:
        tensors: The guarded tensors.
        values: Unmarked tensors on their memory.
        placeholders: Marked tensors on their memory, which they have as `data` while guarded.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]):
        """Guards nothing yet. The tensors are final."""
        self.tensors = list(tensors)
        self.values = [tensor.detach() for tensor in tensors]
        self.placeholders = [dispatch_key.marked(values) for values in self.values]

    def renewed(self, tensors: Sequence[torch.Tensor]) -> GuardedSet:
        """The set of these tensors: this one, if they are where they were."""
        return self if self._is_of(tensors) else GuardedSet(tensors)

    def is_shared(self, uses: int) -> bool:
        """True if the memory of one has more uses than so many, besides those of this set."""
        return any(use_count(one.untyped_storage()) > uses + 2 for one in self.tensors)

    def _is_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        return len(tensors) == len(self.tensors) and all(
            one is held and _are_alike(one, values)
            for one, held, values in zip(tensors, self.tensors, self.values, strict=True)
        )


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors are the same stretch of memory."""
    return (
        one.data_ptr() == other.data_ptr()
        and one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
    )


def guard_of(tensor: object) -> Guard | None:
    """The guard that a tensor is under; None: it is final."""
    return guard_of_class(type(tensor))


def guard_of_class(kind: type) -> Guard | None:
    """The guard whose tensors have this class."""
    held: Callable[[], Guard | None] | None = getattr(kind, "pleach_guard", None)
    return None if held is None else held()


def await_value(value: object) -> bool:
    """Waits for a tensor, or for those in lists, tuples, sets and dictionaries.

    Returns:
        False if none of them was guarded.
    """
    if isinstance(value, torch.Tensor):
        if not hasattr(type(value), "pleach_guard"):
            return False
        guard = guard_of(value)
        if guard is not None:
            guard.await_value(value)
        if hasattr(type(value), "pleach_guard"):
            raise RuntimeError(
                "a tensor is used before it is final, and its training has failed or is gone: "
                "optimizer.close() ends a training in order"
            )
        return True
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set, frozenset)):
        return False
    found = [await_value(each) for each in value]  # all of them
    return any(found)


def await_all_values(in_forward: bool = True) -> None:
    """Waits for the guarded tensors of all trainings, or of those outside of their forward.

    A training that has failed keeps its guards, and does not fail others. Use of its tensors fails.
    """
    for guard in list(_GUARDS):
        if guard.waits and (in_forward or not guard.is_forward):
            with contextlib.suppress(RuntimeError):
                guard.await_all()


def _guarded_class(kind: type[torch.Tensor], guard: Guard) -> type[torch.Tensor]:
    """The class of guarded tensors of a kind."""

    class Waiting(kind):  # type: ignore[misc, valid-type]
        pleach_guard = weakref.ref(guard)

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in _VALUELESS:
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **(kwargs or {}))
            found = [await_value(args), await_value(kwargs)]
            if not any(found):  # it is inside of some other object
                owner = guard_of_class(cls)
                if owner is not None:
                    owner.await_all()
            return func(*args, **(kwargs or {}))

        # Methods that do not ask the class, or not before they read the value.
        def __deepcopy__(self, memo: Any) -> Any:
            await_value(self)
            return kind.__deepcopy__(self, memo)

        def __reduce_ex__(self, protocol: Any) -> Any:
            await_value(self)
            return kind.__reduce_ex__(self, protocol)

        def as_subclass(self, cls: Any) -> Any:
            await_value(self)
            return kind.as_subclass(self, cls)

    Waiting.__name__, Waiting.__qualname__ = kind.__name__, kind.__qualname__
    Waiting.__module__ = kind.__module__
    return Waiting


def _watch() -> None:
    """Lets everything that uses a tensor wait for it, from now on."""
    dispatch_key.watch(await_value, await_all_values)
    _watch_compiled_calls()
    _patch_functions()


def _watch_compiled_calls() -> None:
    """Lets compiled functions wait before their guards compare classes."""
    module: Any = sys.modules.get("torch._dynamo.eval_frame")
    enter = getattr(module, "install_generation_tagging_init", None)  # called at every entry
    if enter is None or hasattr(enter, "pleach_waits"):
        return

    def await_and_enter() -> None:
        await_all_values(in_forward=False)
        enter()

    await_and_enter.pleach_waits = True  # type: ignore[attr-defined]
    module.install_generation_tagging_init = await_and_enter


def _patch_functions() -> None:
    """Lets functions wait: for their arguments, or for everything."""
    for kinds, wrap in ((_WAIT_FOR_ARGUMENTS, _waiting), (_WAIT_FOR_ALL, _after_all)):
        for module, path in kinds:
            *places, name = path.split(".")
            with contextlib.suppress(ImportError, AttributeError):
                place = functools.reduce(getattr, places, importlib.import_module(module))
                function = getattr(place, name)
                if not hasattr(function, "pleach_waits"):
                    setattr(place, name, wrap(function))

    if not hasattr(torch.nn.Parameter.__new__, "pleach_waits"):
        new: Any = _waiting(torch.nn.Parameter.__new__)
        torch.nn.Parameter.__new__ = staticmethod(new)  # type: ignore[method-assign]


def _waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which waits for its arguments, and for a script's tensors."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not any(guard.is_on for guard in list(_GUARDS)):
            return function(*arguments, **keywords)
        if arguments and isinstance(arguments[0], (torch._C.ScriptMethod, torch._C.ScriptModule)):
            await_value(_tensors_of(arguments[0]))
        await_value(arguments)
        await_value(keywords)
        return function(*arguments, **keywords)

    call.pleach_waits = True  # type: ignore[attr-defined]
    return call


def _after_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which waits for everything."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        await_all_values()
        return function(*arguments, **keywords)

    call.pleach_waits = True  # type: ignore[attr-defined]
    return call


def _tensors_of(script: Any) -> list[torch.Tensor]:
    """The parameters and buffers of a script's module."""
    module = script.owner if isinstance(script, torch._C.ScriptMethod) else script
    found: list[torch.Tensor] = []
    kinds: tuple[Any, ...] = (torch._C.ParameterDict, torch._C.BufferDict)
    for kind in kinds:
        found += [tensor for _, tensor in kind(module).items()]
    for _, part in torch._C.ModuleDict(module).items():
        found += _tensors_of(part)
    return found


# A child process has no engine that could bring a value.
os.register_at_fork(before=await_all_values)
