// The functions of libcuda and nvJPEG that sconce calls. The memory of the GPU is memory of the host, and libjpeg-turbo
// decodes. STUB_TURBO is the path of libjpeg-turbo; each batch adds a line with its size to the file STUB_LOG.
// With STUB_FAULT=decode, batches fail; with STUB_FAULT=unit, the GPU has no JPEG unit.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_JPEG = 3, EXECUTION_FAILED = 6, ARCH_MISMATCH = 7, HARDWARE = 3, RGB_INTERLEAVED = 5 };

static int has_fault(const char* name) {
  const char* fault = getenv("STUB_FAULT");
  return fault != NULL && strcmp(fault, name) == 0;
}

int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return ordinal == 0 ? OK : 101; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = &has_fault; return device; }
int cuCtxSetCurrent(void* context) { return context == NULL; }
int cuStreamCreate(void** stream, unsigned flags) { *stream = &has_fault; return flags != 1; }
int cuEventCreate(void** event, unsigned flags) { *event = &has_fault; return flags != 3; }
int cuEventRecord(void* event, void* stream) { return event == NULL || stream == NULL; }
int cuEventSynchronize(void* event) { return event == NULL; }
int cuMemAlloc_v2(uint64_t* device, size_t bytes) { *device = (uint64_t)malloc(bytes); return OK; }
int cuMemFree_v2(uint64_t device) { free((void*)device); return OK; }
int cuMemAllocHost_v2(void** host, size_t bytes) { *host = malloc(bytes); return OK; }
int cuMemFreeHost(void* host) { free(host); return OK; }
int cuMemcpyDtoHAsync_v2(void* host, uint64_t device, size_t bytes, void* stream) {
  (void)stream;
  memcpy(host, (void*)device, bytes);
  return OK;
}

struct image {
  unsigned char* channel[4];
  size_t pitch[4];
};

static struct {
  void* (*init)(int);
  void (*destroy)(void*);
  int (*header)(void*, const unsigned char*, size_t);
  int (*get)(void*, int);
  int (*decompress)(void*, const unsigned char*, size_t, unsigned char*, int, int);
} turbo;
static int batch_size;
static struct {
  int width, height, is_progressive;
} parsed;

int nvjpegCreateEx(int backend, void* device, void* pinned, unsigned flags, void** handle) {
  (void)device, (void)pinned;
  if (has_fault("unit") || backend != HARDWARE || flags != 32) return ARCH_MISMATCH;
  void* library = dlopen(getenv("STUB_TURBO"), RTLD_NOW);
  *(void**)&turbo.init = dlsym(library, "tj3Init");
  *(void**)&turbo.destroy = dlsym(library, "tj3Destroy");
  *(void**)&turbo.header = dlsym(library, "tj3DecompressHeader");
  *(void**)&turbo.get = dlsym(library, "tj3Get");
  *(void**)&turbo.decompress = dlsym(library, "tj3Decompress8");
  *handle = &turbo;
  return OK;
}
int nvjpegJpegStateCreate(void* handle, void** state) { *state = handle; return OK; }
int nvjpegJpegStreamCreate(void* handle, void** stream) { *stream = handle; return OK; }

int nvjpegJpegStreamParseHeader(void* handle, const unsigned char* data, size_t length, void* stream) {
  (void)handle, (void)stream;
  void* decoder = turbo.init(1);
  const int status = turbo.header(decoder, data, length);
  parsed.width = turbo.get(decoder, 5);
  parsed.height = turbo.get(decoder, 6);
  parsed.is_progressive = turbo.get(decoder, 12);
  turbo.destroy(decoder);
  return status == 0 ? OK : BAD_JPEG;
}
int nvjpegJpegStreamGetFrameDimensions(void* stream, unsigned* width, unsigned* height) {
  (void)stream;
  *width = parsed.width;
  *height = parsed.height;
  return OK;
}
int nvjpegDecodeBatchedSupported(void* handle, void* stream, int* refused) {
  (void)handle, (void)stream;
  *refused = parsed.is_progressive;
  return OK;
}
int nvjpegDecodeBatchedInitialize(void* handle, void* state, int size, int threads, int format) {
  (void)handle, (void)state, (void)threads;
  batch_size = size;
  return format == RGB_INTERLEAVED ? OK : EXECUTION_FAILED;
}
int nvjpegDecodeBatched(void* handle, void* state, const unsigned char* const* data, const size_t* lengths, struct image* images,
                        void* stream) {
  (void)handle, (void)state, (void)stream;
  if (has_fault("decode")) return EXECUTION_FAILED;
  for (int i = 0; i < batch_size; ++i) {
    void* decoder = turbo.init(1);
    turbo.header(decoder, data[i], lengths[i]);
    turbo.decompress(decoder, data[i], lengths[i], images[i].channel[0], (int)images[i].pitch[0], 0);
    turbo.destroy(decoder);
  }
  FILE* log = fopen(getenv("STUB_LOG"), "a");
  fprintf(log, "%d\n", batch_size);
  fclose(log);
  return OK;
}
