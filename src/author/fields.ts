/**
 * Fields for files: `image`, `audio` and `file`. In JSON they are strings (URL in, data URI out); in model code they
 * are objects.
 */
import * as z from "zod";
import { FILE_KEYWORD, type FileMark } from "../base/schemas/json-schema.ts";
import { Audio } from "./audio/audio.ts";
import type { AudioDecoders } from "./audio/decoder.ts";
import { dataUrlFault } from "./data-url.ts";
import { defaultLimits, type FileLimits, ModelFile } from "./file.ts";
import { audioDescription, fileDescription, imageDescription } from "./file-description.ts";
import { Image } from "./media.ts";
import { checkOptions, optionsOf, positiveNumber, wholeNumber } from "./options.ts";
import { wireDescriptions } from "./wire-schema.ts";
import { wireUri } from "./withheld-files.ts";

export interface ImageOptions {
  /** Maximum bytes of the encoded image. Default: 32 MiB. */
  maxBytes?: number;
  /** Maximum pixels (width × height), checked from the header before decoding. Default: 50,000,000. */
  maxPixels?: number;
}

export interface AudioOptions {
  /** Maximum bytes of the file. Default: 32 MiB. */
  maxBytes?: number;
  /** Maximum seconds, checked before decoding if the header has the length. Default: 600. */
  maxSeconds?: number;
  /** Functions that make decoders for FLAC, MP3, Ogg Vorbis and Ogg Opus, from npm packages that the author installs. */
  decoders?: AudioDecoders;
}

export interface FileOptions {
  /** Maximum bytes. Default: 32 MiB. */
  maxBytes?: number;
  /** Accepted media types, e.g. `["audio/wav"]` or `["audio/*"]`. Default: all types. */
  mediaTypes?: readonly string[];
}

const imageOptions = optionsOf({ maxBytes: wholeNumber, maxPixels: wholeNumber });
const makeDecoder = z.custom((value) => typeof value === "function", "give a function that makes a decoder").optional();
const audioOptions = optionsOf({
  maxBytes: wholeNumber,
  maxSeconds: positiveNumber,
  decoders: optionsOf({ flac: makeDecoder, mp3: makeDecoder, opus: makeDecoder, vorbis: makeDecoder }).optional(),
});
const mediaType = z
  .string("give a text")
  .regex(/^[\w!#$&^.+-]+\/([\w!#$&^.+-]+|\*)$/, 'give a media type such as "audio/wav" or "audio/*"');
const fileOptions = optionsOf({ maxBytes: wholeNumber, mediaTypes: z.array(mediaType).readonly().optional() });

/**
 * A field for an image. Requests carry a URL (http, https or data), responses a data URI. `preprocess` gets an `Image`.
 * `postprocess` returns an `Image`: one from `Image.fromPixels`, or an image of the input.
 */
export function image(options: ImageOptions = {}) {
  checkOptions("image()", imageOptions, options, "model_invalid");
  const limits = limitsOf(options);
  const expected = z.instanceof(Image, { error: "Expected an Image; make one with Image.fromPixels" });
  const wire = urlOf("an image", { mediaTypes: ["image/*"] }, imageDescription);
  const field = z.codec(wire, expected, { decode: (url) => new Image({ url, limits }), encode: toWire });
  return described(field, imageDescription, "Data URI of an image (data:image/png;base64,…)");
}

/**
 * A field for a sound. WAV is built in; FLAC, MP3, Ogg Vorbis and Ogg Opus need `decoders`. Requests carry a URL
 * (http, https or data), responses a data URI. `preprocess` gets an `Audio`. `postprocess` returns an `Audio`: one from
 * `Audio.fromSamples`, or a sound of the input.
 */
export function audio(options: AudioOptions = {}) {
  checkOptions("audio()", audioOptions, options, "model_invalid");
  const { decoders = {} } = options;
  const limits = limitsOf(options);
  const description = audioDescription(decoders);
  const expected = z.instanceof(Audio, { error: "Expected an Audio; make one with Audio.fromSamples" });
  const wire = urlOf("a sound", { mediaTypes: ["audio/*"] }, description);
  const field = z.codec(wire, expected, { decode: (url) => new Audio({ url, limits }, { decoders }), encode: toWire });
  return described(field, description, "Data URI of a sound (data:audio/wav;base64,…)");
}

/**
 * A field for any file. Requests carry a URL (http, https or data), responses a data URI. `preprocess` gets a
 * `ModelFile`. `postprocess` returns a `ModelFile`: `new ModelFile({ bytes, mediaType })`, or a file of the input.
 */
export function file(options: FileOptions = {}) {
  checkOptions("file()", fileOptions, options, "model_invalid");
  const mediaTypes = (options.mediaTypes ?? []).map((type) => type.toLowerCase());
  const limits = { ...limitsOf(options), mediaTypes };
  const kinds = mediaTypes.length > 0 ? ` (${mediaTypes.join(", ")})` : "";
  const description = fileDescription({ mediaTypes });
  const expected = z.instanceof(ModelFile, {
    error: "Expected a file; make one with new ModelFile({ bytes, mediaType })",
  });
  const wire = urlOf("a file", { mediaTypes }, description);
  const field = z.codec(wire, expected, { decode: (url) => new ModelFile({ url, limits }), encode: toWire });
  return described(field, description, `Data URI of a file${kinds} (data:…;base64,…)`);
}

function described<F extends z.ZodType>(field: F, input: string, output: string): F {
  wireDescriptions.add(field, { input, output: `${output}; a file of the input that was never read keeps its URL` });
  return field;
}

function limitsOf({ maxBytes, maxPixels, maxSeconds }: Partial<FileLimits>): FileLimits {
  return {
    maxBytes: maxBytes ?? defaultLimits.maxBytes,
    maxPixels: maxPixels ?? defaultLimits.maxPixels,
    maxSeconds: maxSeconds ?? defaultLimits.maxSeconds,
    mediaTypes: [],
  };
}

/**
 * Encodes a file as a data URI, or as its URL if the server never fetched it. If an outer schema has checks, zod first
 * encodes without checks, so `file` may be another value: zod refuses it afterwards.
 */
function toWire(file: ModelFile): string {
  if (!(file instanceof ModelFile)) return "";
  return file.url !== undefined && !file.isFilled ? file.url : wireUri(file);
}

function urlOf(noun: string, mark: FileMark, description: string) {
  const expected = `Expected the URL of ${noun} (http://…, https://… or data:…;base64,…)`;
  return z
    .string({ error: ({ input }) => `${expected}, received ${input === null ? "null" : typeof input}` })
    .check(({ value, issues }) => {
      const fault = faultOf(value);
      if (fault === undefined) return;
      const shown = JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
      issues.push({ code: "custom", input: value, message: `${expected}, received ${shown}: ${fault}` });
    })
    .meta({ format: "uri", [FILE_KEYWORD]: mark, description });
}

/** Says why a URL is refused, with a fix; undefined for an accepted URL. */
function faultOf(url: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url.slice(0, 32))?.[1]?.toLowerCase();
  if (scheme === "data") return dataUrlFault(url);
  if (scheme === "http" || scheme === "https") {
    return /^https?:\/\//i.test(url) && URL.canParse(url) ? undefined : "it cannot be read as a URL";
  }
  if (scheme === undefined) return "it has no scheme; a local file can be sent as a data URI";
  return `the scheme ${scheme} is not accepted; use http, https or data`;
}
