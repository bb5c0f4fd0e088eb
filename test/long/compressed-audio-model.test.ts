/** The model of docs/declare.md that reads MP3 and Ogg runs in a server and as an executable file. */
import { describe, expect, test } from "bun:test";
import { copyFile, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { Audio } from "../../src/index.ts";
import { clientOf, follow } from "../helpers/cli.ts";
import { bytesOfUri, dataUri } from "../helpers/data-uri.ts";
import { executable } from "../helpers/executable.ts";
import { guideWeights } from "../helpers/exports.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { cacheFolder } from "../helpers/machine.ts";
import { blocksOf } from "../helpers/readme.ts";
import { storeWith } from "../helpers/server.ts";
import { hasSounds, type Sound, soundOf } from "../helpers/sounds.ts";
import { greatestDifference } from "../helpers/tensors.ts";

const root = join(import.meta.dir, "../..");
const names = ["16000-1.mp3", "22050-2.mp3", "44100-2.ogg", "48000-2.opus"];
const speechOf = ({ bytes }: Pick<Sound, "bytes">) => ({ speech: dataUri(bytes, "audio/mpeg") });
const answer = z.looseObject({ status: z.literal("success"), outputs: z.array(z.object({ clean: z.string() })) });

/**
 * Checks the outputs of a model that halves all samples. `expected` has the samples that libsndfile reads; the model
 * mixes them to mono and resamples them.
 */
async function check(body: unknown, ...expected: readonly Sound[]): Promise<void> {
  const { outputs } = answer.parse(body);
  expect(outputs.length).toBe(expected.length);
  for (const [i, { samples, rate, channels }] of expected.entries()) {
    const wav = Audio.fromSamples({ data: samples, rate, channels }, { encoding: "float32" });
    const right = await wav.samples({ rate: 16_000, channels: 1 });
    const bytes = bytesOfUri(outputs[i]?.clean);
    const { data, ...form } = await new Audio({ bytes, mediaType: "audio/wav" }).samples();
    expect(form).toEqual({ rate: 16_000, channels: 1, length: right.length });
    const halved = right.data.map((value) => value / 2);
    expect(greatestDifference(data, halved)).toBeLessThan(1e-4);
  }
}

describe.skipIf(!hasSounds)(`the model of docs/declare.md (with libsndfile${hasSounds ? "" : ": not here"})`, () => {
  const folder = fixture(async () => {
    const dir = await tempDir();
    const page = await readFile(join(root, "docs/declare.md"), "utf8");
    const block = blocksOf(page).find(({ path }) => path === "guide/denoise-any.ts");
    await Bun.write(dir.join("model.ts"), block?.content ?? "");
    await copyFile(join(await guideWeights(), "denoise.pt2"), dir.join("denoise.pt2"));
    await symlink(join(root, "node_modules"), dir.join("node_modules"));
    return dir;
  }, 120_000);
  const store = fixture(() => storeWith(folder.path), 120_000);
  const server = fixture(() => store.serve("denoise-any", { allowPrivateUrls: true }), 120_000);

  test.each(names)("reads %s from a data URI, an uploaded form and a URL", async (name) => {
    const sound = soundOf(name);
    await check(await server.client.predict([speechOf(sound)]), sound);
    const body = new FormData();
    body.append("speech", new Blob([sound.bytes], { type: "audio/mpeg" }), name);
    const headers = { Prefer: "wait" };
    const uploaded = await server.client.fetch("/predictions", { method: "POST", headers, body });
    await check(await uploaded.json(), sound);
    await using files = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(sound.bytes) });
    await check(await server.client.predict([{ speech: new URL(name, files.url).href }]), sound);
  });

  test("reads sounds in a large body, which a thread parses", async () => {
    const large = ["long.mp3", "long.ogg", "long.opus"].map(soundOf);
    await check(await server.client.predict(large.map(speechOf)), ...large);
  });

  test("says in its schema which formats it reads", async () => {
    expect(JSON.stringify(await server.client.json("/"))).toContain(
      "URL of a sound (WAV, FLAC, MP3, Ogg Vorbis or Ogg Opus): http, https or data",
    );
  });

  test("reads all formats as an executable file", async () => {
    await using program = await executable(folder.path);
    await using home = await tempDir();
    const env = { HOME: home.path, SCONCE_CACHE_DIR: cacheFolder, SCONCE_STORE: "memory" };
    const command = [program.path, "serve", "--port=0", "--host=127.0.0.1"];
    await using running = follow(Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
    const client = await clientOf(running);
    const expected = names.map(soundOf);
    await check(await client.predict(expected.map(speechOf)), ...expected);
  }, 300_000);
});
