#include "filled_batch.h"

#include <ATen/ops/cat.h>

namespace sconce {

std::vector<at::Tensor> filled_batch(const std::vector<at::Tensor>& given, int64_t rows, int64_t wanted) {
  if (rows >= wanted) return given;
  std::vector<at::Tensor> tensors;
  tensors.reserve(given.size());
  for (const auto& tensor : given) {
    auto sizes = tensor.sizes().vec();
    sizes[0] = wanted - rows;
    tensors.push_back(at::cat({tensor, tensor.narrow(0, rows - 1, 1).expand(sizes)}));
  }
  return tensors;
}

void cut_batch(std::vector<at::Tensor>& outputs, int64_t filled, int64_t rows) {
  if (rows >= filled) return;
  for (auto& output : outputs) {
    if (output.defined() && output.dim() > 0 && output.size(0) == filled) output = output.narrow(0, 0, rows);
  }
}

}  // namespace sconce
