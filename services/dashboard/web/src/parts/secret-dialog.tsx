import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import { CopyTextButton } from './copy-button.tsx';
import { Dialog } from './dialog.tsx';

interface SecretDialogProps {
  title: string;
  note: string;
  /** Shown secret; the dialog is closed if undefined. */
  secret: string | undefined;
  onClose: () => void;
}

/** Shows a secret that the server does not show again. Only its button closes it, so that a slip does not lose it. */
export function SecretDialog({ title, note, secret, onClose }: SecretDialogProps) {
  return (
    <Dialog
      opened={secret !== undefined}
      onClose={onClose}
      title={title}
      size="lg"
      closeOnClickOutside={false}
      closeOnEscape={false}
      withCloseButton={false}
    >
      <Stack gap="sm">
        <Alert variant="outline" color="accent" p="xs">
          <Text fz="sm">{note}</Text>
        </Alert>
        <Code block className="wrap-anywhere" style={{ whiteSpace: 'pre-wrap' }}>
          {secret}
        </Code>
        <Group justify="space-between">
          <CopyTextButton text={secret ?? ''} label="Copy" />
          <Button size="xs" onClick={onClose}>
            I have stored it
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
