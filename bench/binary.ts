/** Inputs as the bytes of their tensors: what reading numbers as text takes is then no part of what is measured. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import type { Network } from "./networks.ts";

/** An `ndarray` field's other form on the wire. */
export function bytesUri({ buffer, byteOffset, byteLength }: Float32Array | Uint8Array): string {
  return `data:application/octet-stream;base64,${Buffer.from(buffer, byteOffset, byteLength).toString("base64")}`;
}

/** The same fully connected network, asked with bytes in place of lists of numbers. */
export async function askedInBytes(network: Network): Promise<Network> {
  const bodies = join(network.folder, "bodies-binary.txt");
  const requests = inBytes(await Bun.file(network.inputs).json());
  await Bun.write(bodies, `${requests.map((input) => JSON.stringify([input])).join("\n")}\n`);
  return { ...network, bodies, samples: { ...network.samples, inputs: inBytes(network.samples.inputs) } };
}

const listsSchema = z.array(z.object({ x: z.array(z.number()) }));

function inBytes(inputs: unknown): { readonly x: string }[] {
  return listsSchema.parse(inputs).map(({ x }) => ({ x: bytesUri(Float32Array.from(x)) }));
}
