/** Errors after which a GPU refuses all further work of the process. */

/**
 * The CUDA runtime's texts of the errors after which "the process must be terminated and relaunched".
 * https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
 */
const texts = [
  "an illegal memory access was encountered",
  "an illegal instruction was encountered",
  "device-side assert triggered",
  "hardware stack error",
  "invalid program counter",
  "misaligned address",
  "operation not supported on global/shared address space",
  "the launch timed out and was terminated",
  "uncorrectable ECC error encountered",
  "unspecified launch failure",
];

/**
 * Matches only the start of a message, because the rest may be a client's text. Hooks put their name before an error.
 */
const pattern = new RegExp(`^(?:\\w+ failed: )?CUDA error: (?:${texts.join("|")})`);

/** Whether the GPU refuses all further work of this process after the error. */
export function losesDevice({ message }: Error): boolean {
  return pattern.test(message);
}
