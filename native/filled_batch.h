// Pads batches that have fewer rows than the weights require.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sconce {

/**
 * Repeats the last row of each tensor until there are `wanted` rows. Each given tensor has `rows` rows, at least one.
 */
std::vector<at::Tensor> filled_batch(const std::vector<at::Tensor>& given, int64_t rows, int64_t wanted);

/** Cuts outputs of `filled` rows back to `rows` rows. */
void cut_batch(std::vector<at::Tensor>& outputs, int64_t filled, int64_t rows);

}  // namespace sconce
