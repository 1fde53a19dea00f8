"""The classification models of torchvision by name, so that a sweep file is checked without it.

Source: torchvision 0.29, `torchvision.models.list_models`; a test holds the table to it.
"""

from collections.abc import Mapping
from typing import Final

_AT_224: Final = (
    "alexnet convnext_base convnext_large convnext_small convnext_tiny densenet121 densenet161"
    " densenet169 densenet201 efficientnet_b0 googlenet maxvit_t mnasnet0_5 mnasnet0_75 mnasnet1_0"
    " mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_16gf regnet_x_1_6gf"
    " regnet_x_32gf regnet_x_3_2gf regnet_x_400mf regnet_x_800mf regnet_x_8gf regnet_y_16gf"
    " regnet_y_1_6gf regnet_y_32gf regnet_y_3_2gf regnet_y_400mf regnet_y_800mf regnet_y_8gf"
    " resnet101 resnet152 resnet18 resnet34 resnet50 resnext101_32x8d resnext101_64x4d"
    " resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0"
    " squeezenet1_0 squeezenet1_1 swin_b swin_s swin_t vgg11 vgg11_bn vgg13 vgg13_bn vgg16"
    " vgg16_bn vgg19 vgg19_bn vit_b_16 vit_b_32 vit_l_16 vit_l_32 wide_resnet101_2 wide_resnet50_2"
)

TORCHVISION_MODELS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_AT_224.split(), 224),
    "efficientnet_b1": 240,
    "efficientnet_b2": 288,
    "efficientnet_b3": 300,
    "efficientnet_b4": 380,
    "efficientnet_b5": 456,
    "efficientnet_b6": 528,
    "efficientnet_b7": 600,
    "efficientnet_v2_l": 480,
    "efficientnet_v2_m": 480,
    "efficientnet_v2_s": 384,
    "inception_v3": 299,
    "regnet_y_128gf": 384,
    "swin_v2_b": 256,
    "swin_v2_s": 256,
    "swin_v2_t": 256,
    "vit_h_14": 518,
}
"""By name: the side in pixels of the images that its default weights were trained for."""
