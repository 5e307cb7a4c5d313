import { ActionIcon, Button } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { useEffect, useState } from 'react';
import { copyText } from '../lib/copy-text.ts';
import { showToast } from './toasts.tsx';

const SHOWN_MS = 1_500;

function useCopy(text: string) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    if (await copyText(text)) setCopied(true);
    else showToast({ message: 'This browser does not allow copying. Select the text.' });
  };
  return { copied, copy };
}

/** Shows an icon that copies a text. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const { copied, copy } = useCopy(text);
  return (
    <ActionIcon
      size="sm"
      variant="subtle"
      color="gray"
      title={copied ? 'Copied' : label}
      aria-label={copied ? 'Copied' : label}
      onClick={copy}
    >
      {copied ? <IconCheck size={14} aria-hidden /> : <IconCopy size={14} aria-hidden />}
    </ActionIcon>
  );
}

/** Shows a button with words that copies a text. */
export function CopyTextButton({ text, label }: { text: string; label: string }) {
  const { copied, copy } = useCopy(text);
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      onClick={copy}
    >
      {copied ? 'Copied' : label}
    </Button>
  );
}
