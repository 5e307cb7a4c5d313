import { Box, Code } from '@mantine/core';
import classes from './code-block.module.css';
import { CopyTextButton } from './copy-button.tsx';

/** Shows a text of code with a button that copies it. */
export function CodeBlock({ text, label, copy }: { text: string; label: string; copy: string }) {
  return (
    <Box>
      <Code block className={classes.code ?? ''} tabIndex={0} role="region" aria-label={label}>
        {text}
      </Code>
      <Box mt={8}>
        <CopyTextButton text={text} label={copy} />
      </Box>
    </Box>
  );
}
