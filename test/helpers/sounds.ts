/** MP3 and Ogg files that libsndfile wrote, and the samples that it reads from them. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { FLACDecoder } from "@wasm-audio-decoders/flac";
import { OggVorbisDecoder } from "@wasm-audio-decoders/ogg-vorbis";
import { MPEGDecoder } from "mpg123-decoder";
import { OggOpusDecoder } from "ogg-opus-decoder";
import { z } from "zod";
import { installPackages, made } from "../../examples/minilm/prepared.ts";
import { state } from "../../scripts/setup/step.ts";
import { messageOf } from "../../src/base/errors.ts";
import type { AudioDecoders } from "../../src/index.ts";

/** cffi and numpy are compiled for each version of Python, so their versions are not fixed. */
const packages = ["soundfile==0.14.0", "cffi", "numpy"];
const script = join(import.meta.dir, "sounds.py");
const key = createHash("sha256").update(packages.join(" ")).update(readFileSync(script)).digest("hex").slice(0, 16);
const folder = join(state, "fixtures", `sounds-${key}`);

export interface Sound {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly rate: number;
  readonly channels: number;
  /** Number of samples in one channel. */
  readonly length: number;
  /** The samples of the first channel, then those of the next. */
  readonly samples: Float32Array;
}

/** Whether the files exist. Without them, tests that read them are skipped. */
export const hasSounds = existsSync(folder);

/**
 * Installs libsndfile (6 MB) and writes the files, if they are missing. @returns why that failed; undefined for
 * success
 */
export async function writeSounds(): Promise<string | undefined> {
  try {
    const installed = await made(join(state, "soundfile-0.14.0"), (unfinished) =>
      installPackages(packages, "python3", unfinished),
    );
    await made(folder, async (unfinished) => {
      const env = { ...process.env, PYTHONPATH: installed };
      const child = Bun.spawn(["python3", script, unfinished], {
        env,
        stdin: "ignore",
        stdout: "ignore",
        stderr: "pipe",
      });
      const errors = await child.stderr.text();
      if ((await child.exited) !== 0) throw new Error(errors);
    });
    return undefined;
  } catch (error) {
    return messageOf(error).trim().split("\n").at(-1);
  }
}

const description = z.object({ rate: z.int(), channels: z.int(), length: z.int() });

/** All files by name; empty if the files are missing. */
export function sounds(): ReadonlyMap<string, Sound> {
  if (!hasSounds) return new Map();
  const all = z.record(z.string(), description).parse(JSON.parse(readFileSync(join(folder, "sounds.json"), "utf8")));
  const bytesOf = (name: string) => new Uint8Array(readFileSync(join(folder, name)));
  return new Map(
    Object.entries(all).map(([name, form]) => [
      name,
      { ...form, bytes: bytesOf(name), samples: new Float32Array(bytesOf(`${name}.f32`).buffer) },
    ]),
  );
}

/** Files with other bytes in front or behind, and cut files: the number of samples that libsndfile reads, if it does. */
export function changedSounds(): readonly (readonly [
  name: string,
  file: Uint8Array<ArrayBuffer>,
  length: number | undefined,
])[] {
  if (!hasSounds) return [];
  const schema = z.record(z.string(), z.object({ length: z.int().optional() }));
  const all = schema.parse(JSON.parse(readFileSync(join(folder, "changed.json"), "utf8")));
  return Object.entries(all).map(([name, { length }]) => [
    name,
    new Uint8Array(readFileSync(join(folder, name))),
    length,
  ]);
}

let known: ReadonlyMap<string, Sound> | undefined;

/** The file with this name. */
export function soundOf(name: string): Sound {
  known ??= sounds();
  const sound = known.get(name);
  if (sound === undefined) throw new Error(`there is no ${name}`);
  return sound;
}

/** The decoders that docs/declare.md recommends. */
export const decoders: AudioDecoders = {
  flac: () => new FLACDecoder(),
  mp3: () => new MPEGDecoder(),
  opus: () => new OggOpusDecoder(),
  vorbis: () => new OggVorbisDecoder(),
};
