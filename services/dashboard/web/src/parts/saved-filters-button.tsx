import { Button, type ButtonProps } from '@mantine/core';
import { IconBookmark } from '@tabler/icons-react';
import type { ComponentPropsWithRef } from 'react';

/** Shows the button that opens the menu. */
export function SavedFiltersButton(props: ButtonProps & ComponentPropsWithRef<'button'>) {
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={<IconBookmark size={14} aria-hidden />}
      {...props}
    >
      Saved filters
    </Button>
  );
}
