import { Modal } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { isFor, PAGES } from '../app/pages'

interface KeyHelpProps {
  readonly opened: boolean
  readonly permissions: readonly string[] | undefined
  onClose(): void
}

/** The keys of the console, by `?`. */
export function KeyHelp(props: KeyHelpProps) {
  const { t } = useTranslation()
  const pages = PAGES.filter((page) => page.menu?.shortcut && isFor(page, props.permissions))
  return (
    <Modal
      opened={props.opened}
      onClose={props.onClose}
      title={t('shell:keys.title')}
      closeButtonProps={{ 'aria-label': t('shell:close') }}
    >
      <dl className="facts">
        {(['Ctrl K', '/', 'j k', 'Enter', 'Esc', '?'] as const).map((key) => (
          <KeyLine key={key} keys={key} words={t(`shell:keys.${key}`)} />
        ))}
        {pages.map((page) => (
          <KeyLine key={page.path} keys={`g ${page.menu?.shortcut}`} words={t(`${page.namespace}:menu`)} />
        ))}
      </dl>
    </Modal>
  )
}

function KeyLine(props: { keys: string; words: string }) {
  return (
    <>
      <dt>{props.words}</dt>
      <dd>
        <kbd>{props.keys}</kbd>
      </dd>
    </>
  )
}
