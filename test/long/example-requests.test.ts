/** The served examples answer the requests of their OpenAPI documents as documented. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { preparedModel } from "../../examples/minilm/prepared.ts";
import { ApiDocument } from "../helpers/api-document.ts";
import { storeWith } from "../helpers/server.ts";

const examples = join(import.meta.dir, "../../examples");

test.each([
  ["digits", async () => join(examples, "digits")],
  ["upscale", async () => join(examples, "upscale")],
  ["minilm", async () => (await preparedModel()).folder],
])(
  "%s",
  async (name, folder) => {
    await using store = await storeWith(await folder());
    await using server = await store.serve(name, { maxInputs: 64, maxQueuedItems: 64, maxBodyBytes: 2 ** 20 });
    const document = new ApiDocument(server.client, await server.client.json("/openapi.json"));
    const { requests } = document;
    expect(requests.length).toBeGreaterThan(15);
    for (const request of requests) {
      const { operationId } = request.operation;
      const faults = await document.faultsOf(request);
      expect({ operationId, body: request.mediaType, faults }).toMatchObject({ faults: [] });
    }
  },
  600_000,
);
