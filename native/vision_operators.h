// Operators of torchvision that exported detectors call: torchvision::nms, roi_align and deform_conv2d.
#pragma once

namespace sconce {

/** Registers the operators that no loaded library has registered. Later calls have no effect. */
void register_vision_operators();

}  // namespace sconce
