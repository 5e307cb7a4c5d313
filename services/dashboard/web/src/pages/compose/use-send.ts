import { useMutation } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { handleError } from '../../api/query-client.ts';
import { change, postText, RequestError } from '../../api/request.ts';
import type { AcceptedPush, App, AudienceCount } from '../../api/types.ts';
import {
  describeDevices,
  describeRecipients,
  describeUnknown,
  needsQuestion,
} from '../../lib/audience-words.ts';
import { confirm } from '../../parts/confirm.tsx';

/** A composed push. */
export interface Composed {
  /** JSON text of the request's body. */
  body: string;
  recipients: readonly string[];
  isScheduled: boolean;
}

/** Asks a question, and calls a function when the answer is yes. */
type Asks = (onYes: () => void) => void;

/** Counts the devices of recipients. @throws RequestError */
export function countAudience(app: string, recipients: readonly string[]): Promise<AudienceCount> {
  return change('POST', `/apps/${app}/audience`, { recipients });
}

/** Returns the error for a push that no device would get. @param parameter the parameter that it is shown at */
function noDevice(text: string, parameter?: 'to'): RequestError {
  return new RequestError(400, { code: 'NO_DEVICE', error: text, ...(parameter && { parameter }) });
}

/** Creates a key of 128 random bits. `crypto.randomUUID` is missing on a page without HTTPS. */
function createKey(): string {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Posts bodies. One that is posted again before an answer has come keeps its idempotency key, and so is sent once. */
function createPost(app: string) {
  /** Of the bodies that have no answer so far. */
  const keys = new Map<string, string>();
  return async (body: string): Promise<AcceptedPush> => {
    const key = keys.get(body) ?? createKey();
    keys.set(body, key);
    const accepted = await postText(`/apps/${app}/pushes`, body, key);
    keys.delete(body);
    return accepted;
  };
}

/** Asks before a push is sent. */
function ask(app: string, { recipients, isScheduled }: Composed, found: AudienceCount) {
  return (onConfirm: () => void): void =>
    confirm({
      title: `Send to ${describeDevices(found)}?`,
      text: `App: ${app}. Recipients: ${describeRecipients(recipients)}. ${describeUnknown(found)}`,
      action: isScheduled ? 'Schedule it' : 'Send it',
      isDangerous: false,
      onConfirm,
    });
}

/** Counts the devices of a composed push before it is sent, asks if that is needed, and sends it. */
export function useSend({ id, name }: Pick<App, 'id' | 'name'>) {
  const [post] = useState(() => createPost(id));
  // The second click of a double click comes before the button is disabled.
  const isBusy = useRef(false);
  const send = useMutation({
    mutationFn: async (prepare: () => Promise<{ body: string; asks: Asks | undefined }>) => {
      const { body, asks } = await prepare();
      if (asks === undefined) return post(body);
      asks(() => start(async () => ({ body, asks: undefined })));
      return undefined;
    },
    onError: handleError,
    onSettled() {
      isBusy.current = false;
    },
  });
  const start = (prepare: Parameters<typeof send.mutate>[0]): void => {
    if (isBusy.current) return;
    isBusy.current = true;
    send.mutate(prepare);
  };
  return {
    ...{ isPending: send.isPending, error: send.error, accepted: send.data, reset: send.reset },
    /** Sends a push, after a question if it has a topic, many devices or unknown recipients. */
    send: (composed: Composed): void =>
      start(async () => {
        const found = await countAudience(id, composed.recipients);
        // The API refuses it too, also for later.
        if (found.devices === 0)
          throw noDevice(`No device would get this push. ${describeUnknown(found)}`, 'to');
        const isAsked = needsQuestion(composed.recipients, found);
        return { body: composed.body, asks: isAsked ? ask(name, composed, found) : undefined };
      }),
    /**
     * Sends to the operator's test device without a question.
     *
     * @param test undefined without a test device
     * @param missing text of the error for no test device, or one that is not registered with the app any more
     */
    sendTest: (test: { body: string; token: string } | undefined, missing: string): void =>
      start(async () => {
        const found = test && (await countAudience(id, [test.token]));
        if (test === undefined || found?.devices === 0) throw noDevice(missing);
        return { body: test.body, asks: undefined };
      }),
  };
}
