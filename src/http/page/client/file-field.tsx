/** A field for a file that the user drops, pastes, chooses or records, or whose URL the user types. Files become data URIs. */
import { useState } from "preact/hooks";
import { fileDescription, imageDescription, isAudioDescription } from "../../../author/file-description.ts";
import type { FileMark } from "../../../base/schemas/json-schema.ts";
import { ChooseFile } from "./choose-file.tsx";
import { controlOf, type FieldProps, Labelled } from "./labelled.tsx";
import { Media } from "./media.tsx";
import { Recorder } from "./recorder.tsx";
import { isFile, isPicture } from "./value.ts";

const nouns: Readonly<Record<string, string>> = { image: "an image", audio: "a sound", video: "a video" };

export function FileField({ value, onChange, isOptional, file, ...at }: FieldProps & { readonly file: FileMark }) {
  const url = typeof value === "string" ? value : "";
  const isData = isFile(url);
  const [isRecording, setRecording] = useState(false);
  const [name, setName] = useState<string>();
  /** The URL when the user last left its field: a URL is not shown while it is typed. */
  const [complete, setComplete] = useState(url);
  const take = async (taken: Blob) => {
    const uri = await dataUriOf(taken);
    setName(taken instanceof File ? taken.name : undefined);
    onChange(uri);
  };
  const family = familyOf(file);
  const noun = nouns[family ?? ""] ?? "a file";
  const kind = family === "image" ? "camera" : "microphone";
  const hasRecorder = (family === "image" || family === "audio") && navigator.mediaDevices !== undefined;
  const isShown = isData || (url === complete && /^https?:/i.test(url));
  const { description = "" } = at.schema;
  // The default descriptions are for programs.
  const isDefault = [imageDescription, fileDescription(file)].includes(description) || isAudioDescription(description);
  const about = isDefault || description === "" ? `Drop, paste or choose ${noun}, or give its URL.` : description;
  return (
    <Labelled {...at} description={about}>
      <fieldset class="drop file stack" aria-label={at.label}>
        {isRecording ? (
          <Recorder
            kind={kind}
            onDone={(recorded) => {
              setRecording(false);
              if (recorded !== undefined) take(recorded);
            }}
          />
        ) : (
          isShown && (
            <Media
              key={url}
              url={url}
              label={at.label}
              name={isData ? name : undefined}
              isPicture={isPicture(url) || (family === "image" && !isData)}
            />
          )
        )}
        <div class="actions row">
          <ChooseFile accept={file.mediaTypes.join()} label={`${at.label}: choose ${noun}`} onChoose={take}>
            {url === "" ? `Choose ${noun}` : "Replace"}
          </ChooseFile>
          {hasRecorder && !isRecording && (
            <button type="button" class="small" onClick={() => setRecording(true)}>
              {kind === "camera" ? "Camera" : "Microphone"}
            </button>
          )}
          {isData && (
            <button type="button" class="small" onClick={() => onChange(undefined)}>
              Remove
            </button>
          )}
        </div>
        <input
          {...controlOf(at)}
          type="url"
          placeholder={isData ? "or the URL of another" : "https://…"}
          value={isData ? "" : url}
          onInput={(event) => onChange(event.currentTarget.value || (isData ? value : undefined))}
          onBlur={() => setComplete(url)}
        />
      </fieldset>
    </Labelled>
  );
}

/** The part before the slash that all accepted media types share, such as `image`; undefined if they share none. */
export function familyOf({ mediaTypes }: FileMark): string | undefined {
  const [family, ...others] = new Set(mediaTypes.map((type) => type.split("/", 1)[0]));
  return others.length === 0 ? family : undefined;
}

function dataUriOf(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
