// A server without overhead, as an upper bound for all servers. h2o reads requests. A simple parser reads the numbers.
// One thread runs all waiting inputs, at most 64 in a batch. Answers look like sconce's. The server has no validation,
// records, limits or logs.
#define H2O_USE_EPOLL 1
#include <ATen/Parallel.h>
#include <h2o.h>
#include <netinet/in.h>
#include <torch/script.h>

#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMaxBatch = 64;
constexpr int kBacklog = 4096;
constexpr char kBefore[] = R"({"prediction_id":"0AAAAAAAAAAAAAAAA","status":"success","outputs":[{"y":[)";
constexpr char kAfter[] =
    R"(]}],"created_at":"2026-01-01T00:00:00.000Z","started_at":"2026-01-01T00:00:00.000Z","finished_at":"2026-01-01T00:00:00.000Z"})";

// A request whose answer is not sent. `request` is null once h2o has freed it, because the client is gone.
struct Item {
  h2o_req_t *request;
  std::vector<float> x;
  std::string answer;
};
using Items = std::vector<std::shared_ptr<Item>>;

// A message with finished requests to the thread of the event loop.
struct Finished {
  h2o_multithread_message_t message;
  Items items;
};

std::mutex mutex;
std::condition_variable arrived;
std::deque<std::shared_ptr<Item>> waiting;
h2o_multithread_receiver_t receiver;
h2o_context_t context;
h2o_accept_ctx_t acceptance;

// Reads the numbers after the second '[' of a body such as [{"x":[1,2,3]}].
bool parse(h2o_iovec_t body, std::vector<float> &x) {
  const char *at = body.base, *end = body.base + body.len;
  for (int brackets = 0; brackets < 2; ++at) {
    if (at == end) return false;
    if (*at == '[') ++brackets;
  }
  while (at < end && *at != ']') {
    float value;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return false;
    x.push_back(value);
    at = next;
    while (at < end && (*at == ',' || *at == ' ')) ++at;
  }
  return at < end;
}

void forget(void *guard) {
  auto *item = static_cast<std::shared_ptr<Item> *>(guard);
  (*item)->request = nullptr;
  std::destroy_at(item);
}

int onRequest(h2o_handler_t *, h2o_req_t *request) {
  auto item = std::make_shared<Item>(Item{request, {}, {}});
  if (!parse(request->entity, item->x)) {
    h2o_send_error_400(request, "Bad Request", "expected [{\"x\":[…]}]", 0);
    return 0;
  }
  new (h2o_mem_alloc_shared(&request->pool, sizeof(item), forget)) std::shared_ptr<Item>(item);
  {
    std::lock_guard lock(mutex);
    waiting.push_back(std::move(item));
  }
  arrived.notify_one();
  return 0;
}

void onFinished(h2o_multithread_receiver_t *, h2o_linklist_t *messages) {
  while (!h2o_linklist_is_empty(messages)) {
    std::unique_ptr<Finished> finished(H2O_STRUCT_FROM_MEMBER(Finished, message.link, messages->next));
    h2o_linklist_unlink(&finished->message.link);
    for (auto &item : finished->items) {
      auto *request = item->request;
      if (request == nullptr) continue;
      request->res.status = 200;
      request->res.reason = "OK";
      request->res.content_length = item->answer.size();
      h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, nullptr, H2O_STRLIT("application/json"));
      h2o_send_inline(request, item->answer.data(), item->answer.size());
    }
  }
}

void write(const float *row, int64_t columns, std::string &answer) {
  answer = kBefore;
  char digits[32];
  for (int64_t i = 0; i < columns; ++i) {
    if (i > 0) answer += ',';
    answer.append(digits, std::to_chars(digits, digits + sizeof(digits), row[i]).ptr);
  }
  answer += kAfter;
}

torch::Tensor forward(torch::jit::Module &network, const Items &items) {
  auto width = static_cast<int64_t>(items.front()->x.size());
  auto batch = torch::empty({static_cast<int64_t>(items.size()), width});
  for (size_t i = 0; i < items.size(); ++i)
    std::copy_n(items[i]->x.data(), width, batch.data_ptr<float>() + i * width);
  return network.forward({batch}).toTensor().contiguous();
}

void infer(torch::jit::Module network) {
  torch::InferenceMode inference;
  for (;;) {
    auto finished = std::make_unique<Finished>();
    {
      std::unique_lock lock(mutex);
      arrived.wait(lock, [] { return !waiting.empty(); });
      while (!waiting.empty() && finished->items.size() < kMaxBatch) {
        finished->items.push_back(std::move(waiting.front()));
        waiting.pop_front();
      }
    }
    auto outputs = forward(network, finished->items);
    for (size_t i = 0; i < finished->items.size(); ++i)
      write(outputs.data_ptr<float>() + i * outputs.size(1), outputs.size(1), finished->items[i]->answer);
    h2o_multithread_send_message(&receiver, &finished.release()->message);
  }
}

void onAccept(h2o_socket_t *listener, const char *error) {
  if (error != nullptr) return;
  while (auto *socket = h2o_evloop_socket_accept(listener)) h2o_accept(&acceptance, socket);
}

void listen(uint16_t port) {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(descriptor, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0 || ::listen(descriptor, kBacklog) != 0) {
    perror("listen");
    std::exit(1);
  }
  h2o_socket_read_start(h2o_evloop_socket_create(context.loop, descriptor, H2O_SOCKET_FLAG_DONT_READ), onAccept);
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  at::set_num_threads(1);
  auto network = torch::jit::load(std::getenv("PEER_WEIGHTS"));
  network.eval();
  network = torch::jit::freeze(network);

  static h2o_globalconf_t config;
  h2o_config_init(&config);
  auto *host = h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
  auto *path = h2o_config_register_path(host, "/predictions", 0);
  h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = onRequest;
  h2o_context_init(&context, h2o_evloop_create(), &config);
  acceptance.ctx = &context;
  acceptance.hosts = config.hosts;
  h2o_multithread_register_receiver(context.queue, &receiver, onFinished);
  std::thread(infer, std::move(network)).detach();
  listen(static_cast<uint16_t>(std::atoi(std::getenv("PEER_PORT"))));
  while (h2o_evloop_run(context.loop, INT32_MAX) == 0) {
  }
}
