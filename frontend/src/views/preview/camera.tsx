import { useEffect, useRef, useState } from "preact/hooks";
import type { Refusal } from "../../opening/answers";

/** Why a browser gives no camera, by the name of its error. */
const REFUSALS: Record<string, Refusal> = {
  NotAllowedError: { error: "The camera was not permitted", hint: "permit it for this page in the browser, or choose a file" },
  NotFoundError: { error: "This machine has no camera", hint: "connect one, or choose a file" },
  NotReadableError: { error: "The camera is in use", hint: "close the program that uses it" },
};

/** Frames of the camera: one, or the next one whenever the last is answered. */
export function Camera(props: {
  isRunning: boolean;
  hasFailed: boolean;
  onFrame: (frame: File) => void;
  onRefuse: (why: Refusal) => void;
}) {
  const { isRunning, hasFailed, onFrame, onRefuse } = props;
  const [stream, setStream] = useState<MediaStream | null>(null);
  const [repeats, setRepeats] = useState(false);
  const video = useRef<HTMLVideoElement>(null);

  useEffect(() => {
    if (video.current) video.current.srcObject = stream;
    return () => {
      for (const track of stream?.getTracks() ?? []) track.stop();
    };
  }, [stream]);
  const take = async () => {
    const { current: shown } = video;
    if (!shown?.videoWidth) return;
    const canvas = new OffscreenCanvas(shown.videoWidth, shown.videoHeight);
    canvas.getContext("2d")?.drawImage(shown, 0, 0);
    onFrame(new File([await canvas.convertToBlob()], "camera.png"));
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: a frame follows the answer to the last one.
  useEffect(() => {
    if (hasFailed) setRepeats(false);
    else if (repeats && !isRunning) void take();
  }, [isRunning, hasFailed]);

  // Browsers give cameras to pages of this machine, and to those that are encrypted.
  if (!navigator.mediaDevices) return null;
  if (!stream)
    return (
      <button
        type="button"
        class="quiet camera-open"
        onClick={() =>
          navigator.mediaDevices
            .getUserMedia({ video: true })
            .then(setStream, ({ name, message }: Error) => onRefuse(REFUSALS[name] ?? { error: message, hint: "choose a file" }))
        }
      >
        Camera
      </button>
    );
  const close = () => {
    setRepeats(false);
    setStream(null);
  };
  return (
    <div class="camera">
      <video ref={video} autoplay muted playsinline aria-label="The camera" />
      <button type="button" class="quiet" disabled={isRunning} onClick={take}>
        Take a picture
      </button>
      <label class="check">
        <input
          type="checkbox"
          checked={repeats}
          onChange={(event) => {
            setRepeats(event.currentTarget.checked);
            if (event.currentTarget.checked) void take();
          }}
        />{" "}
        Repeat every frame
      </label>
      <button type="button" class="quiet" onClick={close}>
        Close the camera
      </button>
    </div>
  );
}
