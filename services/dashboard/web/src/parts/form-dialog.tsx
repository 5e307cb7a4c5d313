import { Button, Stack } from '@mantine/core';
import type { FormEvent, ReactNode } from 'react';
import { Dialog } from './dialog.tsx';

interface FormDialogProps {
  title: string;
  /** Label of the button that submits the form. */
  action: string;
  isPending: boolean;
  isDisabled?: boolean;
  gap?: 'sm' | 'md';
  onSubmit: () => void;
  onClose: () => void;
  /** The fields. */
  children: ReactNode;
}

/** Shows a form in a dialog: its fields, and below them the button that submits it. */
export function FormDialog({
  title,
  action,
  isPending,
  isDisabled = false,
  gap = 'sm',
  onSubmit,
  onClose,
  children,
}: FormDialogProps) {
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <Dialog opened onClose={onClose} title={title}>
      <form onSubmit={submit}>
        <Stack gap={gap}>
          {children}
          <Button type="submit" loading={isPending} disabled={isDisabled}>
            {action}
          </Button>
        </Stack>
      </form>
    </Dialog>
  );
}
