/** A field for a file: dropped, pasted, chosen, recorded, or named by its URL. Files are sent as data URIs. */
import { useEffect, useRef, useState } from "preact/hooks";
import { controlOf, type FieldProps, Labelled } from "./field.tsx";
import { Media } from "./media.tsx";
import { Recorder, type RecorderKind } from "./recorder.tsx";
import { isPicture } from "./value.ts";

export function FileField({ value, onChange, accept, ...at }: FieldProps & { readonly accept: string }) {
  const zone = useRef<HTMLFieldSetElement>(null);
  const [isOver, setOver] = useState(false);
  const [recording, setRecording] = useState<RecorderKind>();
  const url = typeof value === "string" ? value : "";
  const isData = url.startsWith("data:");
  const take = async (file: Blob | undefined) => {
    if (file !== undefined) onChange(await dataUriOf(file));
  };
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const file = event.clipboardData?.files[0];
      const target = event.target instanceof Element ? event.target.closest(".file") : null;
      // Pasted beside all of them it is for the first.
      if (file === undefined || (target ?? document.querySelector(".file")) !== zone.current) return;
      event.preventDefault();
      latest.current(file);
    };
    document.addEventListener("paste", paste);
    return () => document.removeEventListener("paste", paste);
  }, []);
  const isImage = accept.startsWith("image/");
  const devices = navigator.mediaDevices === undefined ? [] : recordersFor(accept);
  const [, kinds] = /^URL of an? (.*?)(?: \(.*\))?: http, https or data/.exec(at.schema.description ?? "") ?? [];
  return (
    <Labelled
      {...at}
      description={
        kinds === undefined ? undefined : `Drop, paste or choose ${article(kinds)} ${kinds}, or give its URL.`
      }
    >
      <fieldset
        ref={zone}
        class={`file ${isOver ? "over" : ""}`}
        aria-label={at.label}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          const file = event.dataTransfer?.files[0];
          if (file) take(file);
          else onChange(event.dataTransfer?.getData("text/uri-list") || value);
        }}
      >
        {recording === undefined ? (
          url !== "" && (
            <Media url={url} label={at.label} isPicture={isPicture(url) || (isImage && /^https?:/.test(url))} />
          )
        ) : (
          <Recorder
            kind={recording}
            onDone={(blob) => {
              setRecording(undefined);
              take(blob);
            }}
          />
        )}
        {url === "" && recording === undefined && <p class="drop-hint">Drop a file here</p>}
        <div class="actions">
          <label class="button small">
            {url === "" ? "Choose a file" : "Replace"}
            <input
              type="file"
              class="unseen"
              accept={accept}
              aria-label={`${at.label}: choose a file`}
              onChange={(event) => {
                take(event.currentTarget.files?.[0]);
                event.currentTarget.value = "";
              }}
            />
          </label>
          {recording === undefined &&
            devices.map(({ kind, label }) => (
              <button type="button" class="small" key={kind} onClick={() => setRecording(kind)}>
                {label}
              </button>
            ))}
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
        />
      </fieldset>
    </Labelled>
  );
}

function article(noun: string): string {
  return noun.startsWith("file") ? "a" : /^[aeiou]/i.test(noun) ? "an" : "a";
}

function recordersFor(accept: string): { readonly kind: RecorderKind; readonly label: string }[] {
  if (accept.startsWith("image/")) return [{ kind: "camera", label: "Camera" }];
  return /^audio\//.test(accept) ? [{ kind: "microphone", label: "Microphone" }] : [];
}

export function dataUriOf(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
