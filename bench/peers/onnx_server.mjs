/** onnxruntime-node in a server of Bun: one inference thread, and batches of what waits when it is free. */
import { InferenceSession, Tensor } from "onnxruntime-node";

const MAX_BATCH = 64;
const { PEER_PORT, PEER_ONNX } = process.env;
const session = await InferenceSession.create(PEER_ONNX, { intraOpNumThreads: 1, interOpNumThreads: 1 });
const waiting = [];
let isRunning = false;

function predict(x) {
  const { promise, resolve, reject } = Promise.withResolvers();
  waiting.push({ x, resolve, reject });
  if (!isRunning) void run();
  return promise;
}

async function run() {
  isRunning = true;
  while (waiting.length > 0) {
    const batch = waiting.splice(0, MAX_BATCH);
    const width = batch[0].x.length;
    const data = new Float32Array(batch.length * width);
    for (const [i, { x }] of batch.entries()) data.set(x, i * width);
    try {
      const { y } = await session.run({ x: new Tensor("float32", data, [batch.length, width]) });
      const outputs = y.data.length / batch.length;
      for (const [i, { resolve }] of batch.entries()) resolve([...y.data.subarray(i * outputs, (i + 1) * outputs)]);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
  isRunning = false;
}

Bun.serve({
  port: Number(PEER_PORT),
  hostname: "127.0.0.1",
  routes: {
    "/predict": { POST: async (request) => Response.json({ y: await predict((await request.json()).x) }) },
  },
});
