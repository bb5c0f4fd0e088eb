// The functions of libnvidia-ml that sconce calls, for two GPUs. The second reports neither its use nor its power, as a part of a GPU (MIG) does.
#include <stdint.h>
#include <stdio.h>

enum { OK = 0, NOT_SUPPORTED = 3 };

int nvmlInit_v2(void) { return OK; }
int nvmlDeviceGetCount_v2(uint32_t* count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, uint64_t* device) { *device = 0x7fff12340000 + index; return OK; }
int nvmlDeviceGetUUID(uint64_t device, char* text, uint32_t bytes) {
  snprintf(text, bytes, "GPU-%llx", (unsigned long long)device);
  return OK;
}
int nvmlDeviceGetUtilizationRates(uint64_t device, uint32_t* percents) {
  if (device & 1) return NOT_SUPPORTED;
  percents[0] = 73;
  percents[1] = 20;
  return OK;
}
int nvmlDeviceGetMemoryInfo(uint64_t device, uint64_t* total_free_used) {
  (void)device;
  total_free_used[0] = 85899345920;
  total_free_used[1] = 80000000000;
  total_free_used[2] = 5899345920;
  return OK;
}
int nvmlDeviceGetPowerUsage(uint64_t device, uint32_t* milliwatts) {
  if (device & 1) return NOT_SUPPORTED;
  *milliwatts = 312500;
  return OK;
}
int nvmlDeviceGetTemperature(uint64_t device, uint32_t sensor, uint32_t* celsius) {
  if (sensor != 0) return NOT_SUPPORTED;
  *celsius = 54 + (device & 1);
  return OK;
}
