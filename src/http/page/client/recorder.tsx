/** Takes a picture with the camera, or records a sound with the microphone. */
import { useEffect, useRef, useState } from "preact/hooks";
import { writeWav } from "../../../author/audio/wav.ts";
import { Clock } from "./clock.tsx";

export type RecorderKind = "camera" | "microphone";

interface RecorderProps {
  readonly kind: RecorderKind;
  /** Called with undefined if the user closed the recorder without a recording. */
  readonly onDone: (file: Blob | undefined) => void;
}

export function Recorder({ kind, onDone }: RecorderProps) {
  const video = useRef<HTMLVideoElement>(null);
  const recorder = useRef<MediaRecorder>(null);
  const [stream, setStream] = useState<MediaStream>();
  const [problem, setProblem] = useState<string>();
  const [hasPicture, setReady] = useState(false);
  const isReady = stream !== undefined && (kind === "microphone" || hasPicture);
  useEffect(() => {
    let opened: MediaStream | undefined;
    let isUnmounted = false;
    const stop = () => {
      for (const track of opened?.getTracks() ?? []) track.stop();
    };
    navigator.mediaDevices.getUserMedia(kind === "camera" ? { video: true } : { audio: true }).then(
      (stream) => {
        opened = stream;
        if (isUnmounted) return stop();
        setStream(stream);
        if (video.current) video.current.srcObject = stream;
      },
      (error: unknown) => setProblem(reasonOf(error, kind)),
    );
    return () => {
      isUnmounted = true;
      stop();
    };
  }, [kind]);
  useEffect(() => {
    if (stream === undefined || kind === "camera") return;
    recorder.current = new MediaRecorder(stream);
    recorder.current.start();
  }, [stream, kind]);
  const finish = async () => {
    try {
      onDone(kind === "camera" ? await pictureOf(video.current) : await soundOf(recorder.current));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div class="recorder">
      {kind === "camera" && problem === undefined && (
        <video
          ref={video}
          class={isReady ? "" : "unseen"}
          autoplay
          muted
          playsInline
          aria-label="What the camera sees"
          onLoadedData={() => setReady(true)}
        />
      )}
      <p>
        <span role="status">
          {problem ?? (isReady ? (kind === "camera" ? "" : "Recording …") : `Asking for the ${kind} …`)}
        </span>{" "}
        {problem === undefined && stream !== undefined && kind === "microphone" && <Clock />}
      </p>
      <div class="actions">
        {problem === undefined && (
          <button type="button" class="small primary" disabled={!isReady} onClick={finish}>
            {kind === "camera" ? "Take the picture" : "Stop"}
          </button>
        )}
        <button type="button" class="small" onClick={() => onDone(undefined)}>
          Close
        </button>
      </div>
    </div>
  );
}

function reasonOf(error: unknown, kind: RecorderKind): string {
  const name = error instanceof Error ? error.name : "";
  if (name === "NotFoundError" || name === "OverconstrainedError") return `This device has no ${kind}.`;
  if (name === "NotAllowedError") return `The browser does not let this page use the ${kind}.`;
  if (name === "NotReadableError") return `The ${kind} is used by another program.`;
  return error instanceof Error ? error.message : String(error);
}

async function soundOf(recorder: MediaRecorder | null): Promise<Blob | undefined> {
  if (recorder?.state !== "recording") return undefined;
  const recorded = new Promise<Blob>((resolve) => {
    recorder.ondataavailable = ({ data }) => resolve(data);
  });
  // The whole recording comes in one event, because start() was called without an interval.
  recorder.stop();
  return wavOf(await recorded);
}

function pictureOf(video: HTMLVideoElement | null): Promise<Blob | undefined> {
  const canvas = document.createElement("canvas");
  if (video === null) return Promise.resolve(undefined);
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext("2d")?.drawImage(video, 0, 0);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? undefined), "image/jpeg", 0.92));
}

/** Converts a recording to WAV, which every model can read: 16 bits, the first channel, at the AudioContext's sample rate. */
async function wavOf(recorded: Blob): Promise<Blob> {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await recorded.arrayBuffer()).catch(() => {
      throw new Error("The recording is empty: close this and record again.");
    });
    const wav = writeWav(sound.getChannelData(0), { rate: sound.sampleRate, channels: 1, encoding: "pcm16" });
    return new Blob([wav], { type: "audio/wav" });
  } finally {
    await context.close();
  }
}
