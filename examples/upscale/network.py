"""The network of the upscale example: bicubic interpolation, plus detail that a few convolutions derive from the luma."""
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Upscale(nn.Module):
    """[N, height, width, 3] pixels (RGB, 0 to 255) to [N, 2 height, 2 width, 3], both uint8.

    After ESPCN (W. Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional
    Neural Network", CVPR 2016): the convolutions work on the small picture. Their four output channels are the four pixels
    that replace each pixel. As in VDSR, the result is added to the bicubic interpolation, equally to red, green and blue.
    So colours stay the same, and grey stays grey.
    """

    def __init__(self, channels: int = 24, layers: int = 4) -> None:
        super().__init__()
        convolutions: list[nn.Module] = [nn.Conv2d(1, channels, 3), nn.ReLU(inplace=True)]
        for _ in range(layers):
            convolutions += [nn.Conv2d(channels, channels, 3), nn.ReLU(inplace=True)]
        self.sharpen = nn.Sequential(*convolutions, nn.Conv2d(channels, 4, 3))
        self.margin = layers + 2  # how far the convolutions reach beyond a pixel
        self.register_buffer("luma", torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))
        self.register_buffer("bicubic", bicubic())

    def forward(self, pixels: Tensor) -> Tensor:
        count, height, width, _ = pixels.shape
        colors = pixels.permute(0, 3, 1, 2).float()
        around = F.pad(colors, [self.margin] * 4, mode="replicate")
        detail = self.detail((around * self.luma).sum(1, keepdim=True) / 255)
        smooth = F.conv2d(F.pad(colors, [2] * 4, mode="replicate"), self.bicubic)
        fine = (smooth + 255 * detail.repeat(1, 3, 1, 1)).clamp(0, 255).round().to(torch.uint8)
        return F.pixel_shuffle(fine, 2).permute(0, 2, 3, 1).contiguous()

    def detail(self, luma: Tensor) -> Tensor:
        """Luma [N, 1, height + 2 margin, width + 2 margin] (0 to 1) to the missing detail [N, 4, height, width]."""
        return self.sharpen(luma)


def bicubic() -> Tensor:
    """Weights [12, 3, 5, 5] that double the size of three colours. The kernel has a = -0.5, as in Pillow and MATLAB."""

    def cubic(distance: Tensor) -> Tensor:
        x, a = distance.abs(), -0.5
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * (x**3 - 5 * x**2 + 8 * x - 4)
        return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))

    taps = torch.arange(-2.0, 3.0)
    across = torch.stack([cubic(taps + 0.25), cubic(taps - 0.25)])  # weights of the left and the right new pixel, or the upper and the lower
    kernels = torch.einsum("yi,xj->yxij", across, across).reshape(4, 5, 5)
    return torch.einsum("cd,kij->ckdij", torch.eye(3), kernels).reshape(12, 3, 5, 5).contiguous()
