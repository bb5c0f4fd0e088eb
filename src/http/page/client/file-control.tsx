/** A control for files that the user chooses, drops, pastes or records, or whose URL the user types. */
import { useRef } from "preact/hooks";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import type { ControlProps } from "./controls.tsx";
import { Media } from "./media.tsx";
import { Recorder } from "./recorder.tsx";
import { kindOf } from "./schema.ts";
import { isFile } from "./value.ts";

/** Files become data URIs. The value of a field for one file is a text, and for several files a list. */
export function FileControl({ value, onChange, schema, label, isOptional, attributes }: ControlProps) {
  const chooser = useRef<HTMLInputElement>(null);
  const isList = kindOf(schema) === "files";
  const urls = [value ?? []].flat().filter((each) => typeof each === "string");
  const files = urls.filter(isFile);
  const change = (changed: readonly string[]) => {
    if (!isList) return onChange(changed.at(-1));
    onChange(changed.length === 0 && isOptional ? undefined : changed);
  };
  const take = async (taken: Iterable<Blob> | null) =>
    change([...urls, ...(await Promise.all([...(taken ?? [])].map(dataUrlOf)))]);
  const remove = (url: string) => {
    // The user may choose the same file again.
    if (chooser.current !== null) chooser.current.value = "";
    change(urls.filter((each) => each !== url));
  };
  const noun = nounOf(schema);
  const device = ({ "an image": "camera", "a sound": "microphone" } as const)[noun];
  return (
    <fieldset class="file" aria-label={label}>
      {files.map((url, i) => (
        <Media key={url} url={url} label={label}>
          <button type="button" onClick={() => remove(url)}>
            Remove{isList && ` ${i + 1}`}
          </button>
        </Media>
      ))}
      <input
        ref={chooser}
        type="file"
        accept={mediaTypesOf(schema).join()}
        multiple={isList}
        aria-label={`${label}: choose ${noun}`}
        onChange={({ currentTarget }) => take(currentTarget.files)}
      />
      {device && <Recorder device={device} onTake={(file) => take([file])} />}
      <input
        {...attributes}
        type="url"
        placeholder={files.length === 0 ? "https://…" : "or the URL of another"}
        value={urls.find((url) => !isFile(url)) ?? ""}
        onInput={({ currentTarget: { value: url } }) => change([...files, ...(url === "" ? [] : [url])])}
      />
    </fieldset>
  );
}

/** Accepts pasted files anywhere on the page. A file pasted outside all fields for files goes to the first such field. */
export function takePastedFiles(): void {
  addEventListener("paste", ({ clipboardData, target }) => {
    const field = target instanceof Element ? target.closest(".file") : null;
    const input = (field ?? document).querySelector<HTMLInputElement>(".file [type=file]");
    if (!input || !clipboardData?.files.length) return;
    input.files = clipboardData.files;
    input.dispatchEvent(new Event("change"));
  });
}

function dataUrlOf(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** The description of a file field. The default descriptions, which begin with `URL of`, are for programs, so people get another one. */
export function aboutFile(schema: SchemaNode): string {
  const { description = "" } = schema;
  if (description !== "" && !description.startsWith("URL of ")) return description;
  return `Drop, paste or choose ${nounOf(schema)}, or give its URL.`;
}

/** The kind of file that all accepted media types share. */
function nounOf(schema: SchemaNode): string {
  const [family = "", ...others] = new Set(mediaTypesOf(schema).map((type) => type.split("/", 1)[0]));
  return (others.length === 0 && { image: "an image", audio: "a sound", video: "a video" }[family]) || "a file";
}

/** The accepted media types of a file, or of each file in a list. */
function mediaTypesOf({ file, items }: SchemaNode): readonly string[] {
  return (file ?? items.file)?.mediaTypes ?? [];
}
