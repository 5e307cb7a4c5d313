import type { ModalProps } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';

const DialogWindow = lazy(async () => ({
  default: (await import('./dialog-window.tsx')).DialogWindow,
}));

/** Shows a dialog above the page. Its code is loaded when the first one opens. */
export function Dialog(props: ModalProps) {
  const [wasOpened, setWasOpened] = useState(props.opened);
  if (props.opened && !wasOpened) setWasOpened(true);
  if (!wasOpened) return null;
  return (
    <Suspense>
      <DialogWindow {...props} />
    </Suspense>
  );
}
