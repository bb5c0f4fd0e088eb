/** Fields that hold files: strings on the wire (a URL in, a data URI out), objects in model code. */
import { isMainThread } from "node:worker_threads";
import * as z from "zod";
import { FILE_KEYWORD, type FileMark } from "../json-schema.ts";
import { dataUrlFault } from "./data-url.ts";
import { defaultLimits, ModelFile } from "./file.ts";
import { fileDescription, imageDescription } from "./file-description.ts";
import { Image } from "./media.ts";
import { wireDescriptions } from "./wire-schema.ts";
import { wireUri } from "./withheld-files.ts";

export interface ImageOptions {
  /** Most bytes of the encoded image. Default: 32 MiB. */
  maxBytes?: number;
  /** Most pixels (width × height), checked from the header before anything is decoded. Default: 50,000,000. */
  maxPixels?: number;
}

export interface FileOptions {
  /** Most bytes. Default: 32 MiB. */
  maxBytes?: number;
  /** Media types taken, as `["audio/wav"]` or `["audio/*"]`. Default: all types. */
  mediaTypes?: readonly string[];
}

/**
 * A field that holds an image. On the wire a URL (http, https or data) comes in and a data URI goes out; `preprocess` gets an
 * `Image`, and `postprocess` gives one (`Image.fromPixels`, or an image of the input).
 */
export function image(options: ImageOptions = {}) {
  const limits = { ...defaultLimits, ...options };
  const wire = urlOf("an image", { mediaTypes: ["image/*"] }, imageDescription);
  const field = z.codec(wire, z.instanceof(Image, { error: "Expected an Image; make one with Image.fromPixels" }), {
    decode: (url) => new Image({ url, limits }),
    encode: toWire,
  });
  return field.register(wireDescriptions, {
    input: imageDescription,
    output: `Data URI of an image (data:image/png;base64,…)${unread}`,
  });
}

/**
 * A field that holds a file of any kind. On the wire a URL (http, https or data) comes in and a data URI goes out;
 * `preprocess` gets a `ModelFile`, and `postprocess` gives one (`new ModelFile({ bytes, mediaType })`).
 */
export function file(options: FileOptions = {}) {
  const mediaTypes = (options.mediaTypes ?? []).map((type) => type.toLowerCase());
  const limits = { ...defaultLimits, ...options, mediaTypes };
  const kinds = mediaTypes.length > 0 ? ` (${mediaTypes.join(", ")})` : "";
  const description = fileDescription({ mediaTypes });
  const wire = urlOf("a file", { mediaTypes }, description);
  const error = "Expected a file; make one with new ModelFile({ bytes, mediaType })";
  const field = z.codec(wire, z.instanceof(ModelFile, { error }), {
    decode: (url) => new ModelFile({ url, limits }),
    encode: toWire,
  });
  return field.register(wireDescriptions, {
    input: description,
    output: `Data URI of a file${kinds} (data:…;base64,…)${unread}`,
  });
}

const unread = "; a file of the input that was never read stays the URL it came as";

/**
 * A data URI once there is content; a file that was never fetched stays the URL it is. Where what holds the field has checks, zod encodes once
 * without any: something else than a file is refused after that.
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

/**
 * Longest data URI that is checked on the main thread. Bodies with longer ones are checked on a thread beside it before, and again when it is
 * decoded.
 */
const MAX_CHECKED = 256 * 1024;

/** Why a string is no URL that is taken, with the fix; undefined when it is one. */
function faultOf(url: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url.slice(0, 32))?.[1]?.toLowerCase();
  if (scheme === "data") {
    return url.length > MAX_CHECKED && isMainThread ? undefined : dataUrlFault(url);
  }
  if (scheme === "http" || scheme === "https") {
    return /^https?:\/\//i.test(url) && URL.canParse(url) ? undefined : "it cannot be read as a URL";
  }
  if (scheme === undefined) return "it has no scheme; a local file can be sent as a data URI";
  return `the scheme ${scheme} is not taken; use http, https or data`;
}
