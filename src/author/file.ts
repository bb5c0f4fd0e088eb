/** Files in model code, made from a URL in a request or from bytes. */
import * as z from "zod";
import { SconceError } from "../base/errors.ts";
import { urlLabel } from "../base/url-label.ts";
import { isEssence, mediaTypeOf } from "./media-type.ts";
import { checkOptions, optionsOf } from "./options.ts";

/** Limits of a file field. Each file carries its field's limits, so that fetching and decoding need no schema. */
export interface FileLimits {
  /** Maximum bytes, counted after the HTTP response is decompressed. */
  readonly maxBytes: number;
  /** Maximum pixels of an image, according to its header. */
  readonly maxPixels: number;
  /** Maximum seconds of audio. */
  readonly maxSeconds: number;
  /** Accepted media types, e.g. `audio/wav` or `audio/*`; empty accepts all. */
  readonly mediaTypes: readonly string[];
}

export const defaultLimits: FileLimits = {
  maxBytes: 32 * 2 ** 20,
  maxPixels: 50_000_000,
  maxSeconds: 600,
  mediaTypes: [],
};

export interface FileContent {
  readonly bytes: Uint8Array;
  /** Media type, with optional parameters as in a Content-Type header. Clients also get the parameters. */
  readonly mediaType: string;
}

export interface RemoteFile {
  readonly url: string;
  /** Limits of the file's field. Default: 32 MiB, 50,000,000 pixels, 600 seconds, all media types. */
  readonly limits?: Partial<FileLimits>;
}

const defaultMediaType = "application/octet-stream";

const fileContent = optionsOf({
  bytes: z.instanceof(Uint8Array, { error: "give a Uint8Array" }),
  mediaType: z.string('give a media type such as "audio/wav"'),
});

/** Value of `model` for files that belong to no input. */
const noModel = {};

/**
 * A file of a prediction. Before `preprocess` the server has fetched its bytes. For an output, create it from bytes:
 * `new ModelFile({ bytes, mediaType: "audio/wav" })`.
 */
export class ModelFile {
  /** The URL in the request; undefined when model code created the file. */
  readonly url: string | undefined;
  /** Limits of the file's field. */
  readonly limits: FileLimits;
  #content: (FileContent & { readonly parameters: string }) | undefined;
  #ended: (() => AbortSignal) | undefined;
  #model: object = noModel;
  #waitedMs = 0;

  /** @throws SconceError `item_failed` for bytes with a wrong media type */
  constructor(source: FileContent | RemoteFile) {
    if ("url" in source) {
      this.url = source.url;
      this.limits = { ...defaultLimits, ...source.limits };
    } else {
      checkOptions("new ModelFile", fileContent, source, "item_failed");
      this.limits = defaultLimits;
      this.#content = contentOf(source);
      const { mediaType } = this.#content;
      if (isEssence(mediaType)) return;
      const given = JSON.stringify(mediaType);
      throw new SconceError("item_failed", `new ModelFile: the media type is ${given}; give one such as "audio/wav"`);
    }
  }

  /** Bytes of the file. @throws SconceError `file_unavailable` if the server has not fetched them yet */
  get bytes(): Uint8Array {
    return this.#filled().bytes;
  }

  /**
   * Media type such as `image/png`, in lower case without parameters.
   * @throws SconceError `file_unavailable` if the server has not fetched the file yet
   */
  get mediaType(): string {
    return this.#filled().mediaType;
  }

  get isFilled(): boolean {
    return this.#content !== undefined;
  }

  /** The file's name in error messages: its URL without secrets, or "The file". */
  get label(): string {
    if (this.url === undefined || /^data:/i.test(this.url)) return "The file";
    const url = URL.parse(this.url);
    return url === null ? "The file" : urlLabel(url);
  }

  /** The file as text: `data:<media type>;base64,<bytes>`. */
  toDataUri(): string {
    return this.dataUri((bytes) => bytes.toBase64());
  }

  /** Like `toDataUri`, but the caller encodes the bytes. @param textOf encodes bytes as base64 @internal */
  dataUri(textOf: (bytes: Uint8Array) => string): string {
    const { bytes, mediaType, parameters } = this.#filled();
    // A client's server may send a wrong media type.
    const type = isEssence(mediaType) ? mediaType : defaultMediaType;
    return `data:${type}${parameters};base64,${textOf(bytes)}`;
  }

  /**
   * Aborts when the file's prediction ends; undefined for a file outside a prediction.
   * @internal
   */
  get ended(): AbortSignal | undefined {
    return this.#ended?.();
  }

  /**
   * Total milliseconds that decoding of this file waited for memory, a thread, other models or the event loop.
   * @internal
   */
  get waitedMs(): number {
    return this.#waitedMs;
  }

  waited(ms: number): void {
    this.#waitedMs += ms;
  }

  /** Model whose input has the file. All other files have the same value. @internal */
  get model(): object {
    return this.#model;
  }

  /** Sets the model of the file's prediction, and the function that returns `ended`. @internal */
  belongsTo(model: object, ended: () => AbortSignal): void {
    this.#model = model;
    this.#ended = ended;
  }

  /**
   * Sets the content of a file from a URL. The server calls this before `preprocess`.
   * @throws SconceError `file_too_large` above the field's `maxBytes`; `file_invalid` for a media type that the field
   * does not accept
   * @internal
   */
  fill(content: FileContent): void {
    const filled = contentOf(content);
    const { mediaType } = filled;
    const { maxBytes, mediaTypes } = this.limits;
    if (content.bytes.length > maxBytes) {
      throw new SconceError(
        "file_too_large",
        `${this.label} has ${content.bytes.length} bytes; this field takes at most ${maxBytes}`,
      );
    }
    if (!takesMediaType(mediaTypes, mediaType)) {
      throw new SconceError("file_invalid", `${this.label} is ${mediaType}; this field takes ${mediaTypes.join(", ")}`);
    }
    this.#content = filled;
  }

  #filled() {
    if (this.#content !== undefined) return this.#content;
    throw new SconceError(
      "file_unavailable",
      `${this.label} has not been fetched: the server fetches files just before preprocess, read them there`,
    );
  }
}

/** All files in a decoded input, in order; searches plain objects and arrays at any depth. */
export function filesOf(value: unknown): ModelFile[] {
  const files: ModelFile[] = [];
  collect(value, files);
  return files;
}

function collect(value: unknown, files: ModelFile[]): void {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  if (value instanceof ModelFile) {
    files.push(value);
  } else if (Array.isArray(value)) {
    // Arrays of numbers can be long, so no function is called for a number.
    for (const element of value) if (typeof element === "object") collect(element, files);
  } else if (isPlain(value)) {
    for (const element of Object.values(value)) if (typeof element === "object") collect(element, files);
  }
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function contentOf({ bytes, mediaType }: FileContent) {
  const { essence, parameters } = mediaTypeOf(mediaType);
  return { bytes, mediaType: essence || defaultMediaType, parameters };
}

/**
 * Whether a field accepts a media type. `octet-stream` always passes, because many stores serve every file as this
 * type.
 */
function takesMediaType(allowed: readonly string[], mediaType: string): boolean {
  if (allowed.length === 0 || mediaType.endsWith("/octet-stream")) return true;
  return allowed.some((type) => type === mediaType || (type.endsWith("/*") && mediaType.startsWith(type.slice(0, -1))));
}
