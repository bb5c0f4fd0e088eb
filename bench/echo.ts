/**
 * echo.ts FOLDER NETWORK: Hono on Bun with the route, validation and answers of `POST /predictions`, but without
 * records and model: an upper bound for sconce. Prints its address.
 */
import { Hono } from "hono";
import { readBody } from "../src/http/body-reader.ts";
import { problemOf, problemResponse } from "../src/http/problem.ts";
import { Uploads } from "../src/http/uploads.ts";
import { Bodies } from "../src/pipeline/inputs/body.ts";
import { InputDecoder } from "../src/pipeline/inputs/input-decoder.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { connected, readSamples } from "./networks.ts";

const [folder = "", name = ""] = process.argv.slice(2);
const model = new Map(Object.entries(connected)).get(name);
if (model === undefined) throw new Error(`${name} is no network of this benchmark`);
const bodies = new Bodies(new InputDecoder(model.input));
const [y] = (await readSamples(folder)).outputs;
const memory = new MemoryAccount();
const limits = { maxBytes: 64 * 2 ** 20, memory, uploads: new Uploads() };
const id = "0AAAAAAAAAAAAAAAA";
const time = new Date().toISOString();

const app = new Hono({ strict: false });
app.post("/predictions", async (c) => {
  const { body, charge } = await readBody(c.req.raw, limits);
  using _ = charge;
  const { inputs } = await bodies.decode(body, 10_000, charge);
  const prediction = {
    prediction_id: id,
    status: "success",
    outputs: Array.from({ length: inputs.length }, () => ({ y })),
    created_at: time,
    started_at: time,
    finished_at: time,
  };
  return new Response(JSON.stringify(prediction), {
    headers: { Location: `/predictions/${id}`, "Content-Type": "application/json" },
  });
});
app.onError((error, c) => problemResponse(c, problemOf(error)));

const server = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 0, development: false, fetch: app.fetch });
console.log(`Listening on ${server.url.origin}`);
