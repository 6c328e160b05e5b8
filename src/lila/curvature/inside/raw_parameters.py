"""Parameters that a module adds to activations, multiplies them with or concatenates to them, without a layer.

Class tokens, position embeddings and layer scales are such parameters. The gradient of an output in a parameter p is
needed for each view. So while the network runs, p is replaced at each such use by a copy for each view, and the
gradient in the copies is recorded: the copies are the outputs of a layer whose only input is the constant 1.

What a network makes of parameters alone, by reshaping, slicing or any other function h, is not replaced at once. It is
followed, and where h(p) meets activations, h is applied to the copy of each view. A use of any other kind is left as it
is. The audit finds it, as the parameter itself then occurs in the graph of the outputs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from lila.curvature.inside.stand_in import StandIn
from lila.curvature.rules import Rule, Sharing

Values = Mapping[str, Tensor]
"""Parameters by name."""


class ParameterCopies(StandIn):
    """Returns a copy of a parameter for each view.

    Args:
        owner: the module that owns the parameter.
        own: the name of the parameter in its module.
    """

    def __init__(self, owner: nn.Module, own: str) -> None:
        super().__init__(owner)
        self.own = own

    @property
    def value(self) -> Tensor:
        """The parameter."""
        return getattr(self.owner, self.own)

    def forward(self, views: Tensor) -> Tensor:
        """Return the copies, shape (v, *parameter), with a place of their own in the graph."""
        value = self.value
        copies = value.expand(len(views), *value.shape)
        return copies if copies.requires_grad else copies.detach().requires_grad_()

    def for_owner(self, owner: nn.Module) -> Self:
        return type(self)(owner, self.own)


class ParameterRule(Rule):
    """Each entry of a parameter is a group with a constant input."""

    weight, bias = None, "value"
    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, ParameterCopies)
        return module.value.numel(), 1, 0

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], 0)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x[:, None, None, :].expand(-1, -1, self.shape(module)[0], -1)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return g.reshape(g.shape[0], 1, -1, 1)


PARAMETER_RULE = ParameterRule()


@dataclass(frozen=True)
class _Followed:
    """A tensor that a network made of parameters alone.

    Attributes:
        tensor: its value; kept, so that no other tensor gets its id.
        names: the parameters that it was made of.
        make: makes it of values of these parameters. If `repeated`, it makes a single row.
        repeated: whether the tensor is that row, repeated along the first dimension.
    """

    tensor: Tensor
    names: tuple[str, ...]
    make: Callable[[Values], Tensor]
    _: KW_ONLY
    repeated: bool = False


class FollowParameters(TorchFunctionMode):
    """A context in which a network runs with a copy of some parameters for each view.

    Args:
        copies: what makes the copies of each parameter, by the parameter's name.
        weights: the network's parameters by name, as the network sees them in this run.
        views: the network's inputs.
    """

    def __init__(self, copies: Mapping[str, ParameterCopies], weights: Values, views: Tensor) -> None:
        super().__init__()
        self._stand_ins, self._views = copies, views
        self._copies: dict[str, Tensor] = {}
        self._followed: dict[int, _Followed] = {}
        for name in copies:
            self._note(_Followed(weights[name], (name,), itemgetter(name)))

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        found = [self._followed[id(x)] for x in tensors if id(x) in self._followed]
        if not found or not torch.is_grad_enabled() or func in _CONSTANT:
            return func(*args, **kwargs)
        activations = [x for x in tensors if id(x) not in self._followed and x.requires_grad]
        if activations and func in _NORMALISATIONS:
            return _NORMALISATIONS[func](self, *args, **kwargs)
        if activations and func not in _LIKE_ANOTHER:
            return self._met(func, args, kwargs, max(activations, key=Tensor.dim))
        return self._follow(func, args, kwargs, found)

    def apply(self, func: Callable[..., Any], *args: Any) -> Any:
        """Call a function of PyTorch inside this context."""
        return self.__torch_function__(func, (), args)

    def _note(self, followed: _Followed) -> None:
        self._followed[id(followed.tensor)] = followed

    def _follow(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], found: list[_Followed]
    ) -> Any:
        """Call a function of parameters alone, and follow its results."""
        result = func(*args, **kwargs)
        names = tuple(dict.fromkeys(name for one in found for name in one.names))
        followed, repeated = {id(one.tensor): one for one in found}, any(one.repeated for one in found)
        if func in _REPEATING and not repeated and not kwargs:
            args, repeated = _single_row(func, args, found[0].tensor, result)
        elif repeated and not _keeps_rows(func, args, kwargs, found):
            return result

        def made(values: Values) -> Any:
            def put(x: Any) -> Any:
                return followed[id(x)].make(values) if isinstance(x, Tensor) and id(x) in followed else x

            return func(*tree_map(put, args), **tree_map(put, kwargs))

        if isinstance(result, Tensor):
            if _changes_in_place(func):
                self._followed.pop(id(result), None)
            elif result.is_floating_point():
                self._note(_Followed(result, names, made, repeated=repeated))
        elif isinstance(result, tuple | list) and all(isinstance(part, Tensor) for part in result):
            for i, part in enumerate(result):
                self._note(_Followed(part, names, partial(_part, made, i), repeated=repeated))
        return result

    def _met(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reference: Tensor) -> Any:
        """Call a function of parameters and activations with the copies of the parameters, if it is a known one."""
        joins = _joins_other_dimension(func, args, kwargs, reference)
        if not reference.dim() or (not joins and func not in _ELEMENTWISE):
            return func(*args, **kwargs)
        met = {id(x): x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and id(x) in self._followed}
        copies = {key: self._for_each_row(self._followed[key], reference, joins) for key in met}
        if any(copy is None for copy in copies.values()):
            return func(*args, **kwargs)

        def put(x: Any) -> Any:
            return copies[id(x)] if isinstance(x, Tensor) and id(x) in copies else x

        return func(*tree_map(put, args), **tree_map(put, kwargs))

    def _for_each_row(self, followed: _Followed, reference: Tensor, joins: bool) -> Tensor | None:
        """Return a tensor with a row of its own for each row of the activations; None if it cannot be aligned."""
        rows, views, dim, shape = len(reference), len(self._views), reference.dim(), followed.tensor.shape
        single = followed.repeated or not shape or shape[0] == 1
        if rows % views or len(shape) > dim or (len(shape) == dim and not single) or (joins and len(shape) != dim):
            return None
        if joins and shape[0] != rows:
            return None
        copies = [self._copies_of(name) for name in followed.names]
        if rows > views:  # positions are folded into the batch
            copies = [copy.repeat_interleave(rows // views, 0) for copy in copies]
        with torch._C.DisableTorchFunction():  # functions that other modes put in their place may not take batches
            made: Tensor = torch.vmap(partial(_made_of, followed))(*copies)  # (rows, *shape)
        own = made.shape[2:] if len(shape) == dim else made.shape[1:]  # without the row, of which there is one
        return made.reshape(rows, *(1 for _ in range(dim - 1 - len(own))), *own)

    def _copies_of(self, name: str) -> Tensor:
        if name not in self._copies:
            self._copies[name] = self._stand_ins[name](self._views)
        return self._copies[name]


def _layer_norm(
    mode: FollowParameters,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Compute `F.layer_norm`, whose arguments it has, by a normalisation, a product and a sum."""
    return _scaled_and_shifted(mode, F.layer_norm(input, normalized_shape, eps=eps), weight, bias)


def _group_norm(
    mode: FollowParameters,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Compute `F.group_norm`, whose arguments it has, by a normalisation, a product and a sum."""
    normalised = F.group_norm(input, num_groups, eps=eps)
    return _scaled_and_shifted(mode, normalised, *_by_channel(mode, normalised, weight, bias))


def _batch_norm(
    mode: FollowParameters,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Compute `F.batch_norm`, whose arguments it has, by a normalisation, a product and a sum."""
    normalised = F.batch_norm(input, running_mean, running_var, None, None, training, momentum, eps)
    return _scaled_and_shifted(mode, normalised, *_by_channel(mode, normalised, weight, bias))


def _by_channel(mode: FollowParameters, x: Tensor, *weights: Tensor | None) -> list[Tensor | None]:
    """Arrange a weight per channel such that it can be multiplied with activations (v, channels, ...)."""
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    return [None if weight is None else mode.apply(Tensor.reshape, weight, shape) for weight in weights]


def _scaled_and_shifted(mode: FollowParameters, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = x if weight is None else mode.apply(torch.mul, x, weight)
    result: Tensor = scaled if bias is None else mode.apply(torch.add, scaled, bias)
    return result


def _single_row(
    func: Callable[..., Any], args: tuple[Any, ...], source: Tensor, result: Tensor
) -> tuple[tuple[Any, ...], bool]:
    """Return the arguments that repeat a tensor along all dimensions but the first, and whether that differs."""
    if not result.dim() or result.shape[0] == 1 or (source.dim() == result.dim() and source.shape[0] != 1):
        return args, False
    if func in _LIKE_ANOTHER:
        return (args[0], result.new_empty(()).expand(1, *result.shape[1:])), True
    sizes = tuple(args[1]) if len(args) == 2 and isinstance(args[1], tuple | list) else args[1:]
    return (args[0], (1, *sizes[1:])), True


def _part(make: Callable[[Values], Any], number: int, values: Values) -> Tensor:
    """Return one of several tensors that a function makes."""
    part: Tensor = make(values)[number]
    return part


def _made_of(followed: _Followed, *values: Tensor) -> Tensor:
    """Make a followed tensor of values of the parameters that it was made of."""
    return followed.make(dict(zip(followed.names, values, strict=True)))


def _keeps_rows(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], found: list[_Followed]
) -> bool:
    """Return whether a function of tensors with equal rows makes of single rows a row of what it makes of all."""
    if func in _ELEMENTWISE | _CASTS:
        return True
    return all(one.repeated for one in found) and _joins_other_dimension(func, args, kwargs, found[0].tensor)


def _joins_other_dimension(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], like: Tensor
) -> bool:
    """Return whether a function concatenates tensors along another dimension than the first."""
    if func not in _JOINING or not like.dim():
        return False
    return int(kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else 0))) % like.dim() != 0


def _changes_in_place(func: Callable[..., Any]) -> bool:
    name = getattr(func, "__name__", "")
    return name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))


def _named(names: Iterable[str]) -> frozenset[Callable[..., Any]]:
    """Return the functions of torch, and the methods of tensors, that have these names."""
    return frozenset(getattr(place, name) for name in names for place in (torch, Tensor) if hasattr(place, name))


_OPERATORS = ("add", "sub", "mul", "truediv")
_IN_PLACE = frozenset(f"__i{name}__" for name in _OPERATORS)
_BROADCASTING = ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "rsub", "where")
_ELEMENTWISE = _named(
    [
        *_BROADCASTING,
        *(f"{name}_" for name in _BROADCASTING),
        *(f"__{prefix}{name}__" for name in _OPERATORS for prefix in ("", "r", "i")),
        *("maximum", "minimum", "addcmul", "lerp"),
    ]
)
"""Functions that broadcast their arguments and treat each entry on its own."""
_JOINING = _named(["cat", "concat", "concatenate"])
_REPEATING = _named(["expand", "expand_as", "repeat", "broadcast_to", "tile"])
_LIKE_ANOTHER = _named(["expand_as", "view_as", "reshape_as", "type_as", "to"])
"""Functions that take no more from another tensor than its shape or type."""
_CASTS = _named(["to", "type_as", "float", "double", "contiguous", "clone"])
_CONSTANT = _named(["detach"]) | {getattr(Tensor, name).__get__ for name in ("data", "grad")}
"""Functions whose result has no gradient in the parameter."""
_NORMALISATIONS: Mapping[Callable[..., Any], Callable[..., Tensor]] = {
    F.layer_norm: _layer_norm,
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
}
