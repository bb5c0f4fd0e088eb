/** A version of a packaged model: the repository and the digest of its manifest. */
import { generatedTag } from "../../package/store/reference.ts";

export class ModelVersion {
  readonly repository: string;
  readonly digest: string;
  /** `repository@sha256:…`, which stores keep. */
  readonly reference: string;
  /** `repository:tag`. The tag is generated from the digest, because a tag such as `latest` may later name another version. */
  readonly name: string;
  /** The version as a JSON object, for answers. */
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
   * @param reference `repository@sha256:…`; empty for records of old releases, which did not store it
   * @returns the same object for equal references; undefined for an empty reference
   */
  static of(reference: string): ModelVersion | undefined {
    if (!reference.includes("@")) return undefined;
    const known = ModelVersion.#known.get(reference);
    if (known !== undefined) return known;
    const version = new ModelVersion(reference);
    ModelVersion.#known.set(reference, version);
    return version;
  }
}
