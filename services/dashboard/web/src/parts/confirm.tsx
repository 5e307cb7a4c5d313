import { Text } from '@mantine/core';
import { modals } from '@mantine/modals';
import { notifications } from '@mantine/notifications';
import { isSessionEnd } from '../api/query-client.ts';
import { RequestError } from '../api/request.ts';

interface Confirmation {
  title: string;
  text: string;
  /** Label of the button that does it. */
  action: string;
  isDangerous?: boolean;
  onConfirm: () => void;
}

/** Asks before something is done that cannot be undone. */
export function confirm({ title, text, action, isDangerous = true, onConfirm }: Confirmation) {
  modals.openConfirmModal({
    title,
    children: <Text fz="sm">{text}</Text>,
    labels: { confirm: action, cancel: 'Cancel' },
    confirmProps: isDangerous ? { color: 'red.9' } : {},
    onConfirm,
  });
}

/** Tells that something is done. */
export function tellDone(message: string): void {
  notifications.show({ message });
}

/** Tells why something was not done, with the request's id. */
export function tellError(error: unknown): void {
  if (isSessionEnd(error)) return;
  const id = error instanceof RequestError ? error.requestId : undefined;
  const text = error instanceof Error ? error.message : String(error);
  notifications.show({
    color: 'red.9',
    title: 'Not done',
    message: id === undefined ? text : `${text} (request ${id})`,
    autoClose: 12_000,
  });
}
