import { Button } from '@mantine/core';
import { type Confirmation, confirm } from './confirm.tsx';

interface ConfirmButtonProps {
  label: string;
  isPending: boolean;
  confirmation: Confirmation;
}

/** Shows the button of an action that is done only after a confirmation; a dangerous one is in the colour of errors. */
export function ConfirmButton({ label, isPending, confirmation }: ConfirmButtonProps) {
  return (
    <Button
      size="xs"
      variant="default"
      {...(confirmation.isDangerous !== false && { c: 'var(--mantine-color-error)' })}
      loading={isPending}
      onClick={() => confirm(confirmation)}
    >
      {label}
    </Button>
  );
}
