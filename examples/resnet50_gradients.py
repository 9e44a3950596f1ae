"""The gradient tensors of ResNet-50, from its architecture.

Source: He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016),
table 1 (50 layers), with the projection shortcut in the first block of each stage
(option B) and batch normalisation after every convolution; 1,000 classes.
"""

# Stage: blocks, channels of the bottleneck. The block's output has four times as many.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
EXPANSION = 4
TENSOR_COUNT = 161
PARAMETER_COUNT = 25_557_032
BYTES_PER_ELEMENT = 4  # float32


def convolution(name, inputs, outputs, kernel):
    """Weights of a convolution without bias, and scale and shift of its normalisation."""
    return [(f"{name}.weight", outputs * inputs * kernel * kernel),
            (f"{name}.norm.weight", outputs), (f"{name}.norm.bias", outputs)]


def tensors():
    """(name, element count) of every trainable tensor, in forward order."""
    result = convolution("stem", 3, 64, 7)
    inputs = 64
    for stage, (blocks, channels) in enumerate(STAGES, 1):
        for block in range(blocks):
            name = f"stage{stage}.block{block}"
            result += convolution(f"{name}.reduce", inputs, channels, 1)
            result += convolution(f"{name}.spatial", channels, channels, 3)
            result += convolution(f"{name}.expand", channels, channels * EXPANSION, 1)
            if block == 0:
                result += convolution(f"{name}.shortcut", inputs, channels * EXPANSION, 1)
            inputs = channels * EXPANSION
    return result + [("classifier.weight", inputs * 1000), ("classifier.bias", 1000)]


def gradient_bytes():
    """Bytes of all gradients together; checks the architecture against the known counts."""
    sizes = [count for _, count in tensors()]
    if (len(sizes), sum(sizes)) != (TENSOR_COUNT, PARAMETER_COUNT):
        raise ValueError(f"{len(sizes)} tensors of {sum(sizes)} elements are not ResNet-50")
    return sum(sizes) * BYTES_PER_ELEMENT


if __name__ == "__main__":
    for tensor, elements in tensors():
        print(f"{elements:>10,}  {tensor}")
    print(f"{PARAMETER_COUNT:>10,}  in {TENSOR_COUNT} tensors, {gradient_bytes():,} bytes")
