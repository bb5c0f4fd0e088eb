"""LitServe: one server process and one worker process."""
from litserve import LitAPI, LitServer

from network import MAX_BATCH, PORT, WINDOW_MS, Network


class Forward(LitAPI):
    def setup(self, device):
        self.network = Network()

    def decode_request(self, request):
        return request["x"]

    def batch(self, inputs):
        return inputs

    def predict(self, inputs):
        return self.network.of_lists(inputs)

    def unbatch(self, output):
        return output

    def encode_response(self, output):
        return {"y": output}


if __name__ == "__main__":
    server = LitServer(
        Forward(max_batch_size=MAX_BATCH, batch_timeout=WINDOW_MS / 1000),
        accelerator="cpu",
        workers_per_device=1,
        timeout=60,
    )
    server.run(
        host="127.0.0.1",
        port=PORT,
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
