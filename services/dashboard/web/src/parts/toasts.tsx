import { Notification } from '@mantine/core';
import { useEffect, useSyncExternalStore } from 'react';
import { createMessageStore } from '../lib/message-store.ts';
import classes from './toasts.module.css';

interface Toast {
  id: number;
  message: string;
  title?: string;
  isError?: boolean;
  closeAfterMs?: number;
}

const CLOSE_AFTER_MS = 4_000;
const MAX_SHOWN = 5;

const store = createMessageStore<readonly Toast[]>([]);
let lastId = 0;

/** Shows a message in the corner for a while. */
export function showToast(toast: Omit<Toast, 'id'>): void {
  lastId += 1;
  store.set([...store.get(), { ...toast, id: lastId }].slice(-MAX_SHOWN));
}

/** Shows the messages in the corner; screen readers read each new one. */
export function Toasts() {
  const toasts = useSyncExternalStore(store.subscribe, store.get);
  return (
    <div className={classes.corner} role="status" aria-label="Messages">
      {toasts.map((toast) => (
        <OneToast key={toast.id} toast={toast} />
      ))}
    </div>
  );
}

function OneToast({ toast }: { toast: Toast }) {
  const { id, title, message, isError = false, closeAfterMs = CLOSE_AFTER_MS } = toast;
  useEffect(() => {
    const timer = setTimeout(() => close(id), closeAfterMs);
    return () => clearTimeout(timer);
  }, [id, closeAfterMs]);
  return (
    <Notification
      withBorder
      {...(title !== undefined && { title })}
      {...(isError && { color: 'red.9' })}
      onClose={() => close(id)}
      closeButtonProps={{ 'aria-label': 'Close the message' }}
    >
      {message}
    </Notification>
  );
}

function close(id: number): void {
  store.set(store.get().filter((toast) => toast.id !== id));
}
