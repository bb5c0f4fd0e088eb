/** A version of a packaged model: repository and digest of the manifest. */
import { generatedTag } from "./store/reference.ts";

export class ModelVersion {
  readonly repository: string;
  readonly digest: string;
  /** `repository@sha256:…`, as stores write it. */
  readonly reference: string;
  /** `repository:tag`, with a tag generated from the digest. A tag such as `latest` may later name another version. */
  readonly name: string;
  /** The version as JSON, for answers to clients. */
  readonly json: string;

  private constructor(reference: string) {
    const at = reference.indexOf("@");
    this.reference = reference;
    this.repository = reference.slice(0, at);
    this.digest = reference.slice(at + 1);
    const tag = generatedTag(this.digest);
    this.name = `${this.repository}:${tag}`;
    this.json = JSON.stringify({ repository: this.repository, tag, digest: this.digest });
  }

  static readonly #known = new Map<string, ModelVersion>();

  /**
   * The version with this reference. Equal references give the same object.
   * @param reference `repository@sha256:…`
   * @returns undefined without a reference
   */
  static of(reference = ""): ModelVersion | undefined {
    if (!reference.includes("@")) return undefined;
    const known = ModelVersion.#known.get(reference);
    if (known !== undefined) return known;
    const version = new ModelVersion(reference);
    ModelVersion.#known.set(reference, version);
    return version;
  }
}
