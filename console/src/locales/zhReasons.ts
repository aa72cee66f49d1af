// Why a job waits or ended, in Chinese: the catalogue of the command line.
import texts from '../../../src/gpupool/terminal/chinese/texts/reasons.json'
import { words } from '../../../src/gpupool/terminal/chinese/texts/terms.json'
import { Translator } from './translator'

export default new Translator(texts, words)
