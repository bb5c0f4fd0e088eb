#include "jpeg_unit.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <stdexcept>

namespace pixels {
namespace {

// Constants of nvjpeg.h 13: NVJPEG_BACKEND_HARDWARE, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION (chroma as in
// libjpeg), NVJPEG_OUTPUT_RGBI.
constexpr int kHardware = 3;
constexpr unsigned kSmoothUpsampling = 1 << 5;
constexpr int kRgb = 5;
// Constants of cuda.h: CU_STREAM_NON_BLOCKING; CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING.
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kSleepingEvent = 1 | 2;

/** `nvjpegImage_t`: addresses in the GPU's memory, and bytes of a row, for up to four planes. */
struct Image {
  std::array<uint64_t, 4> planes{};
  std::array<size_t, 4> row_bytes{};
};

/** Most JPEGs in one batch, and most idle buffers. Larger batches are not faster. */
constexpr size_t kMaxBatch = 32;
/** Buffers above this size are freed after each use. */
constexpr size_t kMaxKept = size_t{16} << 20;

/** Functions of the driver and of nvJPEG. Each returns 0 on success. */
struct Functions {
  int (*init)(unsigned);
  int (*device)(int*, int);
  int (*retain_context)(void**, int);
  int (*set_context)(void*);
  int (*create_stream)(void**, unsigned);
  int (*create_event)(void**, unsigned);
  int (*record)(void*, void*);
  int (*wait)(void*);
  int (*allocate)(uint64_t*, size_t);
  int (*free)(uint64_t);
  int (*allocate_host)(void**, size_t);
  int (*free_host)(void*);
  int (*copy_to_host)(void*, uint64_t, size_t, void*);
  int (*create)(int, void*, void*, unsigned, void**);
  int (*create_state)(void*, void**);
  int (*create_header)(void*, void**);
  int (*parse_header)(void*, const unsigned char*, size_t, void*);
  int (*size)(void*, unsigned*, unsigned*);
  int (*supports)(void*, void*, int*);
  int (*begin_batch)(void*, void*, int, int, int);
  int (*decode_batch)(void*, void*, const unsigned char* const*, const size_t*, Image*, void*);
};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the library lacks ") + name);
}

void require(int status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " gave error " + std::to_string(status));
}

void* load(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw std::runtime_error("there is no library " + names.at(0));
}

Functions load_functions(const std::vector<std::string>& libraries) {
  Functions all{};
  void* const cuda = load({"libcuda.so.1"});
  find(cuda, "cuInit", all.init);
  find(cuda, "cuDeviceGet", all.device);
  find(cuda, "cuDevicePrimaryCtxRetain", all.retain_context);
  find(cuda, "cuCtxSetCurrent", all.set_context);
  find(cuda, "cuStreamCreate", all.create_stream);
  find(cuda, "cuEventCreate", all.create_event);
  find(cuda, "cuEventRecord", all.record);
  find(cuda, "cuEventSynchronize", all.wait);
  find(cuda, "cuMemAlloc_v2", all.allocate);
  find(cuda, "cuMemFree_v2", all.free);
  find(cuda, "cuMemAllocHost_v2", all.allocate_host);
  find(cuda, "cuMemFreeHost", all.free_host);
  find(cuda, "cuMemcpyDtoHAsync_v2", all.copy_to_host);
  void* const nvjpeg = load(libraries);
  find(nvjpeg, "nvjpegCreateEx", all.create);
  find(nvjpeg, "nvjpegJpegStateCreate", all.create_state);
  find(nvjpeg, "nvjpegJpegStreamCreate", all.create_header);
  find(nvjpeg, "nvjpegJpegStreamParseHeader", all.parse_header);
  find(nvjpeg, "nvjpegJpegStreamGetFrameDimensions", all.size);
  find(nvjpeg, "nvjpegDecodeBatchedSupported", all.supports);
  find(nvjpeg, "nvjpegDecodeBatchedInitialize", all.begin_batch);
  find(nvjpeg, "nvjpegDecodeBatched", all.decode_batch);
  return all;
}

/** Memory for the RGB pixels of one picture, on the GPU and pinned on the host. */
struct Buffers {
  uint64_t device = 0;
  void* host = nullptr;
  size_t bytes = 0;
};

/** A JPEG that a thread wants decoded. */
struct Request {
  const std::vector<uint8_t>& file;
  int64_t width;
  int64_t height;
  Buffers buffers{};
  bool done = false;
  bool decoded = false;

  size_t bytes() const { return static_cast<size_t>(width) * height * 3; }
};

/** The JPEG unit with its stream, for the lifetime of the process. Thread-safe. */
class Unit {
 public:
  /** Throws std::runtime_error if the GPU or the library cannot be used. */
  Unit(const std::vector<std::string>& libraries, int device) : call_(load_functions(libraries)) {
    int handle = 0;
    require(call_.init(0), "cuInit");
    require(call_.device(&handle, device), "cuDeviceGet");
    require(call_.retain_context(&context_, handle), "cuDevicePrimaryCtxRetain");
    require(call_.set_context(context_), "cuCtxSetCurrent");
    if (call_.create(kHardware, nullptr, nullptr, kSmoothUpsampling, &library_) != 0) {
      throw std::runtime_error("this GPU has no JPEG unit that nvJPEG can use");
    }
    require(call_.create_state(library_, &state_), "nvjpegJpegStateCreate");
    require(call_.create_header(library_, &header_), "nvjpegJpegStreamCreate");
    require(call_.create_stream(&stream_, kNonBlocking), "cuStreamCreate");
    require(call_.create_event(&finished_, kSleepingEvent), "cuEventCreate");
  }

  /** Decodes into the request's buffers. One thread at a time decodes, also for the threads that wait. */
  void decode(Request& request) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(&request);
    }
    const std::lock_guard turn(turn_);
    while (!request.done) {
      const std::vector<Request*> batch = next_batch();
      try {
        run(batch);
      } catch (const std::bad_alloc&) {
        // The requests stay undecoded.
      }
      for (Request* each : batch) each->done = true;
    }
  }

  void give_back(Buffers buffers) {
    const std::lock_guard lock(mutex_);
    if (buffers.bytes <= kMaxKept && idle_.size() < kMaxBatch) idle_.push_back(buffers);
    else release(buffers);
  }

 private:
  /** Removes waiting requests from the queue, and gives them idle buffers. */
  std::vector<Request*> next_batch() {
    const std::lock_guard lock(mutex_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMaxBatch));
    const std::vector<Request*> batch(waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
    for (Request* request : batch) take_buffers(*request);
    return batch;
  }

  /** Gives the request idle buffers, if possible large enough ones. `run` replaces small ones. */
  void take_buffers(Request& request) {
    if (idle_.empty()) return;
    const auto fits = [&](const Buffers& buffers) { return buffers.bytes >= request.bytes(); };
    auto found = std::find_if(idle_.begin(), idle_.end(), fits);
    if (found == idle_.end()) found = idle_.begin();
    request.buffers = *found;
    idle_.erase(found);
  }

  bool has_room(Request& request) {
    Buffers& buffers = request.buffers;
    if (buffers.bytes >= request.bytes()) return true;
    release(buffers);
    buffers = {};
    if (call_.allocate(&buffers.device, request.bytes()) != 0) return false;
    if (call_.allocate_host(&buffers.host, request.bytes()) != 0) {
      call_.free(buffers.device);
      buffers = {};
      return false;
    }
    buffers.bytes = request.bytes();
    return true;
  }

  void release(Buffers buffers) {
    if (buffers.bytes == 0) return;
    call_.set_context(context_);
    call_.free(buffers.device);
    call_.free_host(buffers.host);
  }

  /** Whether the unit can decode the file, and the file has the size for which the caller has memory. */
  bool takes(const Request& request) {
    unsigned width = 0;
    unsigned height = 0;
    int refused = 1;
    return call_.parse_header(library_, request.file.data(), request.file.size(), header_) == 0 &&
           call_.size(header_, &width, &height) == 0 && width == request.width && height == request.height &&
           call_.supports(library_, header_, &refused) == 0 && refused == 0;
  }

  /** Decodes a batch, except files that the unit cannot decode. After an error, no request of the batch is decoded. */
  void run(const std::vector<Request*>& batch) {
    if (call_.set_context(context_) != 0) return;
    std::vector<Request*> taken;
    std::vector<const unsigned char*> files;
    std::vector<size_t> lengths;
    std::vector<Image> images;
    for (Request* request : batch) {
      if (!takes(*request) || !has_room(*request)) continue;
      taken.push_back(request);
      files.push_back(request->file.data());
      lengths.push_back(request->file.size());
      Image& image = images.emplace_back();
      image.planes[0] = request->buffers.device;
      image.row_bytes[0] = static_cast<size_t>(request->width) * 3;
    }
    if (taken.empty() || call_.begin_batch(library_, state_, static_cast<int>(taken.size()), 1, kRgb) != 0) return;
    bool is_whole = call_.decode_batch(library_, state_, files.data(), lengths.data(), images.data(), stream_) == 0;
    for (const Request* request : taken) {
      const Buffers& buffers = request->buffers;
      is_whole = is_whole && call_.copy_to_host(buffers.host, buffers.device, request->bytes(), stream_) == 0;
    }
    // Waits also after an error, because earlier copies may still write into the buffers.
    is_whole = call_.record(finished_, stream_) == 0 && call_.wait(finished_) == 0 && is_whole;
    for (Request* request : taken) request->decoded = is_whole;
  }

  const Functions call_;
  void* context_ = nullptr;
  void* library_ = nullptr;
  void* state_ = nullptr;
  void* header_ = nullptr;
  void* stream_ = nullptr;
  void* finished_ = nullptr;

  /** Held by the thread that decodes. Guards the unit's handles and the requests of its batch. */
  std::mutex turn_;
  /** Guards the queue of requests and the idle buffers. */
  std::mutex mutex_;
  std::vector<Request*> waiting_;
  std::vector<Buffers> idle_;
};

std::mutex opening;
/** Never freed: threads may still decode while the process exits. */
Unit* unit = nullptr;

Unit* open_unit() {
  const std::lock_guard lock(opening);
  return unit;
}

/** Copies RGB to RGBA. */
void widen(const uint8_t* from, size_t pixels, uint8_t* to) {
  for (size_t i = 0; i < pixels; ++i) {
    to[i * 4] = from[i * 3];
    to[i * 4 + 1] = from[i * 3 + 1];
    to[i * 4 + 2] = from[i * 3 + 2];
    to[i * 4 + 3] = 255;
  }
}

}  // namespace

std::string open_jpeg_unit(const std::vector<std::string>& libraries, int device) {
  const std::lock_guard lock(opening);
  try {
    if (unit == nullptr) unit = new Unit(libraries, device);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

Decoded decode_in_unit(const std::vector<uint8_t>& file, int64_t width, int64_t height) {
  Unit* const opened = open_unit();
  if (opened == nullptr) return {};
  Request request{file, width, height};
  opened->decode(request);
  Decoded result;
  if (request.decoded) {
    const size_t row_bytes = static_cast<size_t>(width) * 4;
    result.memory.reset(new uint8_t[row_bytes * height]);
    widen(static_cast<const uint8_t*>(request.buffers.host), static_cast<size_t>(width) * height, result.memory.get());
    result.raster = {width, height, result.memory.get(), row_bytes};
  }
  opened->give_back(request.buffers);
  return result;
}

}  // namespace pixels
