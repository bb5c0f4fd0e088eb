/** A build of a model, as records name it. */
import { generatedTag } from "../../package/store/reference.ts";

export class ModelVersion {
  readonly repository: string;
  readonly digest: string;
  /** `repository@sha256:…`, for stores. */
  readonly reference: string;
  /** `repository:tag` with the generated tag: `latest` may soon be another build. */
  readonly name: string;
  /** The JSON object of answers. */
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
   * @param reference `repository@sha256:…`; empty for a record of a release that did not store it
   * @returns one object for each reference
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
