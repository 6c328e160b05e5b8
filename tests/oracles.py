"""Slow and obvious implementations, written from the paper's equations, of everything that the library does fast.

They share no code with it: Jacobians come from `torch.func`, datum by datum and view by view, and matrices are dense.
All are differentiable in the hyperparameters, so autograd through them is the oracle for gradients.

Indices: n examples, s samples, c outputs; P all trainable weights in the order of `net.named_parameters()`.
"""

from collections.abc import Callable, Sequence
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev
from torch.nn.modules.batchnorm import _NormBase

import lila
from cases import Case
from lila.model.fixup import Bias, Scale

KNOWN = (
    *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d),
    *(nn.LayerNorm, nn.GroupNorm, _NormBase, nn.PReLU, Scale, Bias),
)
"""Layers whose weights share a block; the parameters of any other module are taken one by one."""


def trainable(net: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in net.named_parameters() if p.requires_grad}


def output(net: nn.Module, view: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """f(x_s; theta) at a single view, shape (c,)."""
    result: Tensor = functional_call(net, weights, (view[None],))[0]
    return result


def average_output(net: nn.Module, views: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """f_hat(x_n) from the views of one example, by a loop over S (eq. 1)."""
    outputs = [output(net, view, weights) for view in views]
    return torch.stack(outputs).sum(0) / len(outputs)


def rows(f: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The Jacobian of f in each input, (c, *shape), row by row, with a graph.

    Not by `torch.func.jacrev`, whose result is right but whose gradient through a LayerNorm's scale is not.
    """
    by_output = [torch.autograd.grad(value, inputs, create_graph=True, materialize_grads=True) for value in f]
    return [torch.stack(of_input) for of_input in zip(*by_output, strict=True)]


def jacobian(net: nn.Module, views: Tensor) -> Tensor:
    """J_hat of one example: the Jacobian of f_hat in all trainable weights, shape (c, P)."""
    weights = {name: w.requires_grad_() for name, w in trainable(net).items()}
    jacobians = rows(average_output(net, views, weights), list(weights.values()))
    return torch.cat([J.reshape(len(J), -1) for J in jacobians], dim=1)


def jacobian_by_func(net: nn.Module, views: Tensor) -> Tensor:
    """The same by `torch.func.jacrev`."""
    jacobians = jacrev(lambda weights: average_output(net, views, weights))(trainable(net))
    return torch.cat([J.flatten(1) for J in jacobians.values()], dim=1)


def output_hessian(likelihood: lila.Likelihood, f: Tensor, y: Tensor) -> Tensor:
    """Lambda_hat of one example by automatic differentiation, shape (c, c)."""
    return -hessian(lambda f: likelihood.log_prob(f[None], y[None])[0])(f)


def output_score(likelihood: lila.Likelihood, f: Tensor, y: Tensor) -> Tensor:
    """d log p / df of one example by automatic differentiation, shape (c,)."""
    result: Tensor = jacrev(lambda f: likelihood.log_prob(f[None], y[None])[0])(f)
    return result


def output_matrix(case: Case, curvature: str, views: Tensor, y: Tensor) -> Tensor:
    """What stands between J_hat' and J_hat: Lambda_hat, or the outer product of the score for the empirical Fisher."""
    f = average_output(case.net, views, trainable(case.net))
    if curvature == "ef":
        score = output_score(case.likelihood, f, y)
        return torch.outer(score, score)
    return output_hessian(case.likelihood, f, y)


def output_matrices(case: Case, curvature: str) -> list[Tensor]:
    """The matrix of each example, shape (c, c)."""
    return [output_matrix(case, curvature, views, y) for views, y in zip(case.views(), case.y, strict=True)]


def full_curvature(case: Case, curvature: str = "ggn") -> Tensor:
    """sum_n J_hat' Lambda_hat J_hat (eq. 12), shape (P, P)."""
    blocks = []
    for views, middle in zip(case.views(), output_matrices(case, curvature), strict=True):
        J = jacobian(case.net, views)
        blocks.append(J.mT @ middle @ J)
    return torch.stack(blocks).sum(0)


def curvature_matrix(case: Case, structure: str, curvature: str = "ggn") -> Tensor:
    """The curvature in a structure, as a dense matrix (P, P)."""
    return {"full": full_curvature, "diag": diag_curvature, "kron": kron_curvature}[structure](case, curvature)


def diag_curvature(case: Case, curvature: str = "ggn") -> Tensor:
    return torch.diag(full_curvature(case, curvature).diagonal())


# Kronecker factors ----------------------------------------------------------------------------------------------------


def layer_inputs_and_jacobians(net: nn.Module, module: nn.Module, view: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Per use of a module: its input and the Jacobian of f in its output, (c, *shape), found by adding to that."""
    seen: list[tuple[Tensor, Tensor]] = []

    def look(_: nn.Module, args: tuple[Tensor], out: Tensor) -> None:
        seen.append((args[0], out))

    handle = module.register_forward_hook(look)
    net(view[None])
    handle.remove()
    result = []
    for use, (inputs, made) in enumerate(seen):
        shift = torch.zeros_like(made, requires_grad=True)
        count = iter(range(len(seen)))

        def add(
            _: nn.Module, __: tuple[Tensor], out: Tensor, use: int = use, shift: Tensor = shift, count: Any = count
        ) -> Tensor:
            return out + shift if next(count) == use else out.clone()

        handle = module.register_forward_hook(add)
        f = net(view[None])[0]
        handle.remove()
        result.append((inputs[0], rows(f, [shift])[0][:, 0]))
    return result


def conv_patches(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor) -> list[Tensor]:
    """The patch under the kernel at each position, channel first, by loops: each of shape (channels, *kernel)."""
    dims = len(module.kernel_size)
    if module.padding == "same":
        total = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
        before, after = [t // 2 for t in total], [t - t // 2 for t in total]
    else:
        before = after = [int(p) for p in module.padding]
    pad = [side for i in reversed(range(dims)) for side in (before[i], after[i])]
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = nn.functional.pad(x[None], pad, mode=mode)[0]
    reach = [d * (k - 1) + 1 for d, k in zip(module.dilation, module.kernel_size, strict=True)]
    starts = [range(0, x.shape[1 + i] - reach[i] + 1, module.stride[i]) for i in range(dims)]
    corners = torch.cartesian_prod(*[torch.tensor(list(s)) for s in starts]).reshape(-1, dims)
    patches = []
    for corner in corners.tolist():
        window = tuple(slice(c, c + r, d) for c, r, d in zip(corner, reach, module.dilation, strict=True))
        patches.append(x[(slice(None), *window)])
    return patches


def transposed_patches(module: nn.ConvTranspose2d, x: Tensor) -> list[Tensor]:
    """At each output position, the input pixel that each kernel entry multiplies, or 0: each (channels, *kernel)."""
    size = module(x[None]).shape[2:]
    patches = []
    for position in product(range(size[0]), range(size[1])):
        patch = x.new_zeros(x.shape[0], *module.kernel_size)
        for entry in product(*map(range, module.kernel_size)):
            reach = [
                position[i] + int(module.padding[i]) - module.dilation[i] * entry[i] for i in range(2)
            ]  # stride times the pixel
            pixel = [reach[i] // module.stride[i] for i in range(2)]
            whole = all(reach[i] % module.stride[i] == 0 for i in range(2))
            if whole and all(0 <= pixel[i] < x.shape[1 + i] for i in range(2)):
                patch[:, entry[0], entry[1]] = x[:, pixel[0], pixel[1]]
        patches.append(patch)
    return patches


def kron_layer(case: Case, middles: list[Tensor], name: str, module: nn.Module) -> Tensor:
    """The block of one layer over its trainable weights, weight first, then bias (eq. 7 and 15)."""
    weight = getattr(module, "weight", getattr(module, "scale", None))
    bias = getattr(module, "bias", None)
    with_weight, with_bias = (p is not None and p.requires_grad for p in (weight, bias))
    scalar_like = isinstance(module, nn.LayerNorm | nn.GroupNorm | Scale | Bias | _NormBase | nn.PReLU)
    A: Tensor | float = 0.0
    G: Tensor | float = 0.0
    positions = 0
    unitwise: Tensor | float = 0.0
    for views, middle in zip(case.views(), middles, strict=True):
        uses = [layer_inputs_and_jacobians(case.net, module, view) for view in views]
        mean_uses = []
        for use in range(len(uses[0])):
            inputs = torch.stack([normalised(module, u[use][0]) for u in uses]).mean(0)
            jacobians = torch.stack([u[use][1] for u in uses]).mean(0)
            mean_uses.append((inputs, jacobians))
        if scalar_like:
            J = sum_tensors(
                [unit_jacobian(module, a, g, with_weight, with_bias) for a, g in mean_uses]
            )  # (c, units, d)
            unitwise = unitwise + torch.einsum("cui,ce,euj->uij", J, middle, J)
            continue
        for a_all, g_all in mean_uses:
            for a, g in positions_of(module, a_all, g_all, with_weight, with_bias):  # (groups, d), (groups, o, c)
                A = A + torch.einsum("ri,rj->rij", a, a)
                G = G + torch.einsum("roc,ce,rpe->rop", g, middle, g)
                positions += 1
    if scalar_like:
        assert isinstance(unitwise, Tensor)
        return interleave(unitwise, with_bias)
    assert isinstance(A, Tensor)
    assert isinstance(G, Tensor)
    groups = [
        torch.kron(G_r.contiguous(), A_r.contiguous()) / positions for G_r, A_r in zip(G, A, strict=True)
    ]  # over (o, d)
    shape = len(groups), G.shape[1], A.shape[1]
    return reorder(torch.block_diag(*groups), *shape, with_bias, transposed=isinstance(module, nn.ConvTranspose2d))


def sum_tensors(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors).sum(0)


def normalised(module: nn.Module, x: Tensor) -> Tensor:
    """The quantity that a normalisation's scale multiplies, by its textbook formula; the input itself elsewhere."""
    if isinstance(module, nn.LayerNorm):
        dims = tuple(range(-len(module.normalized_shape), 0))
        centred = x - x.mean(dims, keepdim=True)
        return centred / (centred.square().mean(dims, keepdim=True) + module.eps).sqrt()
    if isinstance(module, nn.GroupNorm):
        grouped = x.reshape(module.num_groups, -1)
        centred = grouped - grouped.mean(1, keepdim=True)
        return (centred / (centred.square().mean(1, keepdim=True) + module.eps).sqrt()).reshape(x.shape)
    if isinstance(module, _NormBase):
        channels = x.reshape(module.num_features, -1)
        mean, variance = channels.mean(1), channels.var(1, unbiased=False)
        if module.track_running_stats:
            assert module.running_mean is not None
            assert module.running_var is not None
            mean, variance = module.running_mean, module.running_var
        return ((channels - mean[:, None]) / (variance[:, None] + module.eps).sqrt()).reshape(x.shape)
    return torch.where(x < 0, x, 0.0) if isinstance(module, nn.PReLU) else x


def unit_jacobian(module: nn.Module, a: Tensor, g: Tensor, with_weight: bool, with_bias: bool) -> Tensor:
    """Jacobian in scale and shift of each unit, summed over the positions that share it: (c, units, 1 or 2)."""
    if isinstance(module, nn.LayerNorm):
        units = a.shape[-1]
        by_scale, by_shift = (t.reshape(len(g), -1, units).sum(1) for t in (g * a, g))
    elif isinstance(module, nn.GroupNorm | _NormBase) or (isinstance(module, nn.PReLU) and module.num_parameters > 1):
        by_scale, by_shift = (t.reshape(*t.shape[:2], -1).sum(2) for t in (g * a, g))
    else:
        by_scale, by_shift = (t.flatten(1).sum(1)[:, None] for t in (g * a, g))
    kept = [j for j, wanted in ((by_scale, with_weight), (by_shift, with_bias)) if wanted]
    return torch.stack(kept, dim=-1)


def positions_of(
    module: nn.Module, a: Tensor, g: Tensor, with_weight: bool, with_bias: bool
) -> list[tuple[Tensor, Tensor]]:
    """Input (groups, d) and Jacobian (groups, o, c) at each position of a Linear or a convolution, one by one."""
    if isinstance(module, nn.Linear):
        pairs = list(zip(a.reshape(-1, 1, a.shape[-1]), g.reshape(len(g), -1, 1, g.shape[-1]).unbind(1), strict=True))
    else:
        assert isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose2d)
        found = transposed_patches(module, a) if isinstance(module, nn.ConvTranspose2d) else conv_patches(module, a)
        patches = [p.reshape(module.groups, -1) for p in found]
        pairs = list(zip(patches, g.flatten(2).reshape(len(g), module.groups, -1, len(patches)).unbind(3), strict=True))
    result = []
    for inputs, jacobians in pairs:  # (groups, d), (c, groups, o)
        kept = [inputs] if with_weight else []
        kept += [inputs.new_ones(len(inputs), 1)] if with_bias else []
        result.append((torch.cat(kept, 1), jacobians.permute(1, 2, 0)))
    return result


def reorder(block: Tensor, groups: int, outputs: int, inputs: int, with_bias: bool, transposed: bool = False) -> Tensor:
    """From the order (group, output, input with bias last) to that of the parameters: all weights, then all biases.

    A transposed convolution, here with a kernel of 3 x 2 entries, stores weights as (group, channel, output, entry).
    """
    index = torch.arange(len(block)).reshape(groups, outputs, inputs)
    width = inputs - with_bias
    weights = index[..., :width]
    if transposed:
        weights = weights.reshape(groups, outputs, -1, 6).transpose(1, 2)
    order = torch.cat([weights.flatten(), index[..., width:].flatten()])
    return block[order][:, order]


def interleave(units: Tensor, with_bias: bool) -> Tensor:
    """Blocks (units, d, d) of scale and shift as a matrix over all scales, then all shifts."""
    return reorder(torch.block_diag(*units), 1, len(units), units.shape[1], with_bias)


def unbiased_kron_layer(case: Case, middles: list[Tensor], name: str, module: nn.Module) -> Tensor:
    """The same from products of different views alone, by a loop over all pairs of them."""
    if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose2d):
        return kron_layer(case, middles, name, module)
    with_weight, with_bias = (p is not None and p.requires_grad for p in (module.weight, module.bias))
    A, G = [], []
    for views, middle in zip(case.views(), middles, strict=True):
        uses = [layer_inputs_and_jacobians(case.net, module, view) for view in views]
        by_view = [
            [pair for a, g in of_view for pair in positions_of(module, a, g, with_weight, with_bias)]
            for of_view in uses
        ]  # per view and position (groups, d), (groups, o, c)
        for one, other in permutations(by_view, 2):
            for (a, g), (b, h) in zip(one, other, strict=True):
                A.append(torch.einsum("ri,rj->rij", a, b))
                G.append(torch.einsum("roc,ce,rpe->rop", g, middle, h))
    pairs = case.model.samples * (case.model.samples - 1)
    positions = len(A) // pairs
    groups = [
        torch.kron(G_r.contiguous(), A_r.contiguous()) / positions
        for G_r, A_r in zip(sum_tensors(G) / pairs, sum_tensors(A) / pairs, strict=True)
    ]
    shape = len(groups), G[0].shape[1], A[0].shape[1]
    return reorder(torch.block_diag(*groups), *shape, with_bias, transposed=isinstance(module, nn.ConvTranspose2d))


def raw_parameters(case: Case, middles: list[Tensor], name: str, module: nn.Module) -> Tensor:
    """The diagonal of the exact curvature over the parameters that a module owns itself."""
    own = [".".join(filter(None, (name, key))) for key, p in module.named_parameters(recurse=False) if p.requires_grad]
    summed = []
    for views, middle in zip(case.views(), middles, strict=True):
        weights = {key: w.requires_grad_(key in own) for key, w in trainable(case.net).items()}
        found = rows(average_output(case.net, views, weights), [weights[key] for key in own])
        J = torch.cat([part.reshape(len(part), -1) for part in found], dim=1)
        summed.append((J.mT @ middle @ J).diagonal())
    return torch.diag(sum_tensors(summed))


def kron_curvature(case: Case, curvature: str = "ggn", unbiased: bool = False) -> Tensor:
    """The Kronecker-factored curvature as a dense block-diagonal matrix (P, P)."""
    middles = output_matrices(case, curvature)

    def of_layer(name: str, module: nn.Module) -> Tensor:
        is_variant = not type(module).forward.__module__.startswith(("torch.", "lila."))
        if is_variant or not isinstance(module, KNOWN):
            return raw_parameters(case, middles, name, module)
        return (unbiased_kron_layer if unbiased else kron_layer)(case, middles, name, module)

    return torch.block_diag(
        *[
            of_layer(name, module)
            for name, module in case.net.named_modules()
            if any(p.requires_grad for p in module.parameters(recurse=False))
        ]
    )


# Evidence -------------------------------------------------------------------------------------------------------------


def precision_vector(case: Case, prior: lila.GaussianPrior) -> Tensor:
    """delta of every weight, shape (P,)."""
    weights = trainable(case.net)
    return torch.cat([delta.expand(weights[name].shape).flatten() for name, delta in prior.precisions().items()])


def views_as_examples(case: Case) -> Case:
    """The plain network on all views, each with its example's target."""
    plain = lila.InvariantModel(case.net, lila.Compose(), samples=1)
    y = case.y.repeat_interleave(case.model.samples, 0)
    return Case(plain, case.likelihood, case.views().flatten(0, 1), y, case.draw)


def terms(
    case: Case,
    prior: lila.GaussianPrior,
    structure: str,
    curvature: str = "ggn",
    weight: float = 1.0,
    mean: Tensor | float = 0.0,
) -> tuple[Tensor, ...]:
    """The three terms of the evidence, differentiable in every hyperparameter; examples count `weight` each.

    The prior's mean is given by all its entries in a row, or is the same number for all.
    """
    weights = trainable(case.net)
    theta = torch.cat([w.flatten() for w in weights.values()])
    delta = precision_vector(case, prior)
    f = torch.stack([average_output(case.net, views, weights) for views in case.views()])
    log_likelihood = weight * case.likelihood.log_prob(f, case.y).sum()
    H = weight * curvature_matrix(case, structure, curvature) + torch.diag(delta)
    occam_factor = -0.5 * (torch.linalg.slogdet(H).logabsdet - delta.log().sum())
    return log_likelihood, -0.5 * (delta * (theta - mean) ** 2).sum(), occam_factor


def lost_to_noise(case: Case) -> Tensor:
    """tr(Lambda V) / 2S of each example, where V is the covariance of the outputs at its views, shape (n,)."""
    weights, found = trainable(case.net), []
    for views, y in zip(case.views(), case.y, strict=True):
        outputs = torch.stack([output(case.net, view, weights) for view in views])
        Lambda = output_hessian(case.likelihood, outputs.mean(0), y)
        found.append(torch.trace(Lambda @ torch.cov(outputs.mT)) / (2 * len(views)))
    return torch.stack(found)


def gradients(
    case: Case, evidence: lila.Evidence, structure: str, curvature: str = "ggn", mean: Tensor | float = 0.0
) -> dict[str, Tensor]:
    """Gradient of the evidence in every hyperparameter by autograd through the dense oracle in one graph."""
    parameters = evidence.hyperparameters()
    value = torch.stack(terms(case, evidence.prior, structure, curvature, mean=mean)).sum()
    grads = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    return dict(zip(parameters, grads, strict=True))


def central_differences(function: Callable[[], float], parameter: Tensor, step: float = 1e-6) -> Tensor:
    """The gradient of a function of a parameter's entries, changed in place one at a time."""
    gradient = torch.zeros_like(parameter)
    flat, result = parameter.detach().view(-1), gradient.view(-1)
    for i in range(flat.numel()):
        start = float(flat[i])
        values = []
        for shift in (step, -step):
            flat[i] = start + shift
            values.append(function())
        flat[i] = start
        result[i] = (values[0] - values[1]) / (2 * step)
    return gradient
