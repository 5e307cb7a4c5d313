import { Button, Group, Text } from '@mantine/core';
import { useState, useSyncExternalStore } from 'react';
import { isSessionEnd } from '../api/query-client.ts';
import { RequestError } from '../api/request.ts';
import { createMessageStore } from '../lib/message-store.ts';
import { Dialog } from './dialog.tsx';
import { showToast } from './toasts.tsx';

/** A question, and what is done when it is answered with yes. */
export interface Confirmation {
  title: string;
  text: string;
  /** Label of the button that does it. */
  action: string;
  isDangerous?: boolean;
  onConfirm: () => void;
}

const ERROR_SHOWN_MS = 12_000;

const asked = createMessageStore<Confirmation | undefined>(undefined);

/** Requests a confirmation before an action that cannot be undone. */
export function confirm(confirmation: Confirmation): void {
  asked.set(confirmation);
}

/** Shows the question of {@link confirm}. */
export function ConfirmDialog() {
  const current = useSyncExternalStore(asked.subscribe, asked.get);
  // The text stays while the dialog closes.
  const [shown, setShown] = useState(current);
  if (current !== undefined && current !== shown) setShown(current);
  const close = () => asked.set(undefined);
  const act = () => {
    close();
    current?.onConfirm();
  };
  return (
    <Dialog opened={current !== undefined} onClose={close} title={shown?.title}>
      <Text fz="sm">{shown?.text}</Text>
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <Button {...(shown?.isDangerous !== false && { color: 'red.9' })} onClick={act}>
          {shown?.action}
        </Button>
      </Group>
    </Dialog>
  );
}

/** Reports the success of an action. */
export function tellDone(message: string): void {
  showToast({ message });
}

/** Reports the reason why an action failed, with the request's id. */
export function tellError(error: unknown): void {
  if (isSessionEnd(error)) return;
  const id = error instanceof RequestError ? error.requestId : undefined;
  const text = error instanceof Error ? error.message : String(error);
  showToast({
    isError: true,
    title: 'Not done',
    message: id === undefined ? text : `${text} (request ${id})`,
    closeAfterMs: ERROR_SHOWN_MS,
  });
}
