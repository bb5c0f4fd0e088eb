/** Files as model code sees them: made from a URL on the wire, or from bytes by the model itself. */
import { SconceError } from "../errors.ts";
import { mediaTypeOf } from "./media-type.ts";
import { urlLabel } from "./url-label.ts";

/** What one field allows. Travels with the file, so that whoever fetches or decodes it needs no schema. */
export interface FileLimits {
  /** Most bytes after decompression of the transfer. */
  readonly maxBytes: number;
  /** Most pixels of an image, as its header states them. */
  readonly maxPixels: number;
  /** Media types taken, as `audio/wav` or `audio/*`; empty for all types. */
  readonly mediaTypes: readonly string[];
}

/** What fields allow where their options say nothing else. */
export const defaultLimits: FileLimits = { maxBytes: 32 * 2 ** 20, maxPixels: 50_000_000, mediaTypes: [] };

export interface FileContent {
  readonly bytes: Uint8Array;
  /** As in a Content-Type header. Clients are told its parameters, too. */
  readonly mediaType: string;
}

export interface RemoteFile {
  readonly url: string;
  /** Default: `defaultLimits`. */
  readonly limits?: Partial<FileLimits>;
}

/**
 * A file of a prediction. In `preprocess` its bytes are there: the server fetched them. For an output, make one from bytes:
 * `new ModelFile({ bytes, mediaType: "audio/wav" })`.
 */
export class ModelFile {
  /** Where the file comes from; undefined when model code made it. */
  readonly url: string | undefined;
  #limits: FileLimits;
  #content: (FileContent & { readonly parameters: string }) | undefined;
  #ended: (() => AbortSignal) | undefined;

  constructor(source: FileContent | RemoteFile) {
    if ("url" in source) {
      this.url = source.url;
      this.#limits = { ...defaultLimits, ...source.limits };
    } else {
      this.#limits = defaultLimits;
      this.#content = contentOf(source);
    }
  }

  get limits(): FileLimits {
    return this.#limits;
  }

  /** The content. Throws `file_unavailable` before the server fetched it. */
  get bytes(): Uint8Array {
    return this.#filled().bytes;
  }

  /** As `image/png`: lower case, without parameters. Throws `file_unavailable` before the server fetched the file. */
  get mediaType(): string {
    return this.#filled().mediaType;
  }

  get isFilled(): boolean {
    return this.#content !== undefined;
  }

  /** How messages name the file: its URL without what may be secret; "The file" where there is none that says more. */
  get label(): string {
    if (this.url === undefined || /^data:/i.test(this.url)) return "The file";
    const url = URL.parse(this.url);
    return url === null ? "The file" : urlLabel(url);
  }

  /** `data:<media type>;base64,<bytes>` */
  toDataUri(): string {
    return this.dataUri((bytes) => bytes.toBase64());
  }

  /**
   * The same with another text for the bytes.
   * @internal
   */
  dataUri(textOf: (bytes: Uint8Array) => string): string {
    const { bytes, mediaType, parameters } = this.#filled();
    return `data:${mediaType}${parameters};base64,${textOf(bytes)}`;
  }

  /**
   * Lowers what the field allows to what the server allows.
   * @internal
   */
  restrict({ maxBytes = Infinity, maxPixels = Infinity }: Partial<FileLimits>): void {
    this.#limits = {
      ...this.#limits,
      maxBytes: Math.min(this.#limits.maxBytes, maxBytes),
      maxPixels: Math.min(this.#limits.maxPixels, maxPixels),
    };
  }

  /**
   * Fires when nobody waits for its prediction any more; undefined for a file of nobody's.
   * @internal
   */
  get ended(): AbortSignal | undefined {
    return this.#ended?.();
  }

  /** @internal */
  endsWith(ended: () => AbortSignal): void {
    this.#ended = ended;
  }

  /**
   * Gives a file that came as a URL its content; the server does this before `preprocess`. Throws `file_too_large` over the
   * field's `maxBytes` and `file_invalid` for a media type that the field does not take.
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

/** Every file in a decoded input, in order; looks into plain objects and arrays, at any depth. */
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
    // Arrays of numbers can be long: their elements cost one `typeof` each and no call.
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
  return { bytes, mediaType: essence || "application/octet-stream", parameters };
}

/** Many stores serve everything as `octet-stream`, which says nothing: such files are taken and left to the model's code. */
function takesMediaType(allowed: readonly string[], mediaType: string): boolean {
  if (allowed.length === 0 || mediaType.endsWith("/octet-stream")) return true;
  return allowed.some((type) => type === mediaType || (type.endsWith("/*") && mediaType.startsWith(type.slice(0, -1))));
}
