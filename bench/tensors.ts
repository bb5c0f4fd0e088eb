/** Sends several rows in a request of the API v2 (Open Inference Protocol), as binary tensors. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeDataUrl } from "../src/author/data-url.ts";
import { type BinaryBodies, load } from "./load.ts";
import type { Network } from "./networks.ts";
import { areClose, type Server, type Target } from "./target.ts";

export interface BinaryInput {
  readonly rows: number;
  /** Name of the model's input. In the JSON requests its value is a data URI with the bytes of a row. */
  readonly input: string;
  /** Shape of a row: of the tensor without its batch dimension. */
  readonly shape: readonly number[];
  readonly dtype: string;
}

const MAX_BYTES = 2 ** 30;
const LENGTH_HEADER = "Inference-Header-Content-Length";

/**
 * Starts a server and measures it with binary tensors. Checks its answers through its own API, then one answer with
 * tensors.
 */
export function inTensors(options: BinaryInput, start: (network: Network) => Promise<Server>) {
  return async (network: Network): Promise<Target> => {
    const server = await start(network);
    const url = new URL(`/v2/models/${network.name}/infer`, server.url).href;
    const binary = writeBodies(network, options, join(network.folder, `binary-${server.child.pid}-`));
    return {
      title: server.title,
      async check() {
        await server.check();
        await checkFirst(url, network, options, binary);
      },
      async measure(asked) {
        const done = await load({ url, bodies: "", binary }, asked);
        return { ...done, perSecond: done.perSecond * options.rows };
      },
      async [Symbol.asyncDispose]() {
        await server[Symbol.asyncDispose]();
        for (let i = 0; i < binary.count; i++) rmSync(`${binary.prefix}${i}.bin`, { force: true });
      },
    };
  };
}

/** Posts the first body. @throws Error if a row of the answer is wrong */
async function checkFirst(url: string, network: Network, { rows }: BinaryInput, binary: BinaryBodies): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream", [LENGTH_HEADER]: String(binary.jsonBytes) },
    body: await Bun.file(`${binary.prefix}0.bin`).bytes(),
  });
  const bytes = await response.bytes();
  if (!response.ok) throw new Error(`v2 answered with ${response.status}: ${new TextDecoder().decode(bytes)}`);
  const given = new Float32Array(bytes.slice(Number(response.headers.get(LENGTH_HEADER))).buffer);
  const expected = Array.from({ length: rows }, (_, row) => Object.values(network.samples[row]?.output ?? {}).flat());
  if (!areClose([...given], expected.flat(), network.tolerance ?? 0)) throw new Error("v2 answered wrongly");
}

function writeBodies(network: Network, { rows, input, shape, dtype }: BinaryInput, prefix: string): BinaryBodies {
  const elements = network.requests.map((request) => decodeDataUrl(String(request[input]), MAX_BYTES).bytes);
  const bytes = elements[0]?.length ?? 0;
  const tensor = {
    name: input,
    shape: [rows, ...shape],
    datatype: dtype,
    parameters: { binary_data_size: rows * bytes },
  };
  const json = Buffer.from(JSON.stringify({ inputs: [tensor], parameters: { binary_data_output: true } }));
  for (let i = 0; i < elements.length; i++) {
    const batch = Array.from({ length: rows }, (_, row) => elements[(i + row) % elements.length] ?? new Uint8Array());
    writeFileSync(`${prefix}${i}.bin`, Buffer.concat([json, ...batch]));
  }
  return { prefix, count: elements.length, jsonBytes: json.length };
}
