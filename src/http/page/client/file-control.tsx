/** A control for a file that the user drops, pastes, chooses or records, or whose URL the user types. Files become data URIs. */
import { useState } from "preact/hooks";
import { fileDescription, imageDescription, isAudioDescription } from "../../../author/file-description.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { ChooseFile } from "./choose-file.tsx";
import type { ControlProps } from "./controls.tsx";
import { Media } from "./media.tsx";
import { Recorder } from "./recorder.tsx";
import { isFile } from "./value.ts";

export function FileControl({ value, onChange, schema, label, attributes }: ControlProps) {
  const url = typeof value === "string" ? value : "";
  const isData = isFile(url);
  const [isRecording, setRecording] = useState(false);
  const [name, setName] = useState("");
  const take = (file: Blob) => {
    const reader = new FileReader();
    reader.onload = () => {
      setName(file instanceof File ? file.name : "");
      onChange(String(reader.result));
    };
    reader.readAsDataURL(file);
  };
  const noun = nounOf(schema);
  const device = ({ "an image": "camera", "a sound": "microphone" } as const)[noun];
  return (
    <fieldset class="drop file stack" aria-label={label}>
      {isRecording && device && (
        <Recorder
          device={device}
          onDone={(recorded) => {
            setRecording(false);
            if (recorded !== undefined) take(recorded);
          }}
        />
      )}
      {isData && !isRecording && <Media key={url} url={url} label={label} name={name} />}
      <div class="row">
        <ChooseFile accept={schema.file?.mediaTypes.join()} label={`${label}: choose ${noun}`} onChoose={take}>
          {url === "" ? `Choose ${noun}` : "Replace"}
        </ChooseFile>
        {device && !isRecording && navigator.mediaDevices !== undefined && (
          <button type="button" onClick={() => setRecording(true)}>
            {device === "camera" ? "Camera" : "Microphone"}
          </button>
        )}
        {isData && (
          <button type="button" onClick={() => onChange(undefined)}>
            Remove
          </button>
        )}
      </div>
      <input
        {...attributes}
        type="url"
        placeholder={isData ? "or the URL of another" : "https://…"}
        value={isData ? "" : url}
        onInput={(event) => onChange(event.currentTarget.value || (isData ? value : undefined))}
      />
    </fieldset>
  );
}

/** The description of a file field. The default descriptions of schemas are for programs, so people get another one. */
export function aboutFile(schema: SchemaNode): string {
  const { description = "", file = { mediaTypes: [] } } = schema;
  const isDefault = ["", imageDescription, fileDescription(file)].includes(description);
  if (!isDefault && !isAudioDescription(description)) return description;
  return `Drop, paste or choose ${nounOf(schema)}, or give its URL.`;
}

/** The kind of file that all accepted media types share. */
function nounOf({ file }: SchemaNode): string {
  const [family = "", ...others] = new Set(file?.mediaTypes.map((type) => type.split("/", 1)[0]));
  return (others.length === 0 && { image: "an image", audio: "a sound", video: "a video" }[family]) || "a file";
}
